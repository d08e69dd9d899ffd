import type { FastifyInstance, FastifyReply } from 'fastify';
import { carillonError } from '../../core/errors.ts';
import type { Cluster } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Bus, BusReader } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { TRIGGERS_QUERY } from '../queries.ts';
import { bodyOf, readQuery } from '../requests.ts';
import { LineStream, StreamMember, triggerLines } from '../trigger-stream.ts';
import { checkBy } from '../validate.ts';

/** What the routes need of the API's parts. */
export interface TriggerStreamDeps {
  stores: { bus: Bus };
  clock: Clock;
  telemetry: Telemetry;
  /** Random text, for the names of sessions. */
  newRequestKey: () => string;
}

const READ_WAIT_MS = 1_000;
const READ_RECORDS = 500;
const GROUP = /^(?!carillon\.)[A-Za-z0-9._-]{1,200}$/;

const COMMIT_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  required: ['session'],
  properties: {
    session: { type: 'string', minLength: 1, maxLength: 64, description: 'From the first line of the stream' },
    offsets: {
      type: 'array',
      maxItems: 1_024,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['partition', 'next'],
        properties: {
          partition: { type: 'integer', minimum: 0, maximum: 1_000_000 },
          next: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
        },
      },
    },
    released: {
      type: 'array',
      maxItems: 1_024,
      items: { type: 'integer', minimum: 0, maximum: 1_000_000 },
    },
  },
};
const checkCommit = checkBy(COMMIT_SCHEMA);

interface Commit {
  session: string;
  offsets?: { partition: number; next: number }[];
  released?: number[];
}

/**
 * Triggers as a stream of lines (NDJSON), for consumers without a Kafka client and for `carillon tail`.
 *
 * The first line is `{"session","topic","partitions"}`: from then on nothing is missed. Then one line a trigger,
 * `{"partition","offset","at","key","id","headers","payload"}`; an empty line when nothing came for 10 s; and
 * `{"revoked":PARTITION}` when another member of the group gets a partition: commit what is done and release it.
 *
 * With `group` the stream is a member of that group and goes on where the group's offsets stand, and at most
 * `LIMITS.streamUncommitted` triggers are out without a commit. Without, it reads all partitions and stores nothing.
 */
export function triggerRoutes(
  app: FastifyInstance,
  deps: TriggerStreamDeps,
  clusters: { cluster(name: string): Promise<Cluster> },
): void {
  const streams = new Map<string, { cluster: string; member: StreamMember | null; close: () => Promise<void> }>();
  const path = '/v1/clusters/:cluster/triggers';
  const tags = ['triggers'];
  // Streams have no end of their own: a server that stops ends them.
  app.addHook('preClose', async () => {
    await Promise.allSettled([...streams.values()].map(({ close }) => close()));
  });

  app.get(path, { schema: { tags, summary: 'Stream of triggers, as lines of JSON' } }, async (request, reply) => {
    const { group, from } = readQuery(request, TRIGGERS_QUERY);
    const cluster = await clusters.cluster((request.params as { cluster: string }).cluster);
    if (group !== undefined && !GROUP.test(group)) {
      const detail = 'group must be 1 to 200 letters, digits, ".", "_" or "-", and not begin with "carillon."';
      throw carillonError('request-invalid', detail, { field: 'group', token: group.slice(0, 40) });
    }
    if (group !== undefined && from !== undefined) {
      throw carillonError('request-invalid', 'a group goes on where its offsets stand: leave out from', {
        field: 'from',
      });
    }
    if (streams.size >= LIMITS.triggerStreams) {
      throw carillonError('too-many-requests', `${LIMITS.triggerStreams} streams of triggers are open`);
    }
    const session = deps.newRequestKey();
    const opened =
      group === undefined
        ? await openReaders(deps, cluster, from ?? 'end')
        : await openMember(deps, cluster, group, session);
    const close = () => {
      streams.delete(session);
      return opened.close();
    };
    streams.set(session, { cluster: cluster.name, member: opened.member, close });
    opened.lines.body.once('close', () => {
      close().catch((error: unknown) =>
        deps.telemetry.event('warn', 'a stream of triggers did not close', fault(error)),
      );
    });
    return send(reply, opened.lines);
  });

  const commit = { schema: { tags, summary: 'Store offsets of a stream of triggers', body: COMMIT_SCHEMA } };
  app.post(`${path}/commit`, commit, async (request, reply) => {
    const cluster = await clusters.cluster((request.params as { cluster: string }).cluster);
    const body = bodyOf<Commit>(request);
    checkCommit(body);
    const stream = streams.get(body.session);
    if (stream?.member == null || stream.cluster !== cluster.name) {
      throw carillonError('state-conflict', 'this stream has ended, or another API process has it', {
        field: 'session',
      });
    }
    const lost = await stream.member.commit(body.offsets ?? []);
    for (const partition of body.released ?? []) stream.member.release(partition);
    if (lost.length > 0) {
      throw carillonError('state-conflict', `partition ${lost.join(', ')} is another member's`, { field: 'offsets' });
    }
    return reply.code(204).send();
  });
}

interface Opened {
  lines: LineStream;
  member: StreamMember | null;
  close(): Promise<void>;
}

async function openMember(
  { stores, clock }: TriggerStreamDeps,
  { topic, partitions }: Cluster,
  group: string,
  session: string,
): Promise<Opened> {
  const member = new StreamMember(session, clock, LIMITS.streamUncommitted, LIMITS.streamReleaseMs);
  await member.lines.write(JSON.stringify({ session, topic, partitions }));
  try {
    member.member = await stores.bus.join(group, topic, member);
  } catch (error) {
    await member.close();
    throw error;
  }
  return { lines: member.lines, member, close: () => member.close() };
}

async function openReaders(deps: TriggerStreamDeps, { topic }: Cluster, from: 'first' | 'end'): Promise<Opened> {
  const { clock, telemetry } = deps;
  const { bus } = deps.stores;
  const partitions = await bus.partitions(topic);
  const lines = new LineStream(clock);
  const readers = await Promise.all(
    Array.from({ length: partitions }, (_, partition) => bus.reader(topic, partition, from)),
  );
  await lines.write(JSON.stringify({ session: null, topic, partitions }));
  const reading = readers.map((reader) =>
    copy(reader, lines).catch((error: unknown) => {
      telemetry.event('warn', 'a stream of triggers ended', fault(error));
      lines.end();
    }),
  );
  const close = async () => {
    lines.end();
    await Promise.all(reading);
    await Promise.all(readers.map((reader) => reader.close()));
  };
  return { lines, member: null, close };
}

async function copy(reader: BusReader, lines: LineStream): Promise<void> {
  while (!lines.ended) {
    const records = await reader.read(READ_WAIT_MS, READ_RECORDS);
    for (let done = 0; done < records.length; ) {
      const next = triggerLines(records, done, records.length);
      await lines.write(next.lines);
      done += next.n;
    }
  }
}

function send(reply: FastifyReply, lines: LineStream): FastifyReply {
  return reply.type('application/x-ndjson').header('cache-control', 'no-store').send(lines.body);
}

function fault(error: unknown): { error: string } {
  return { error: String(error) };
}
