import { Http, pathPart } from '../sdk/http.ts';
import { consumeHttp } from '../sdk/http-consumer.ts';
import { triggerLines } from '../sdk/trigger-stream.ts';
import {
  CONNECTION,
  CONNECTION_USAGE,
  connectionOf,
  print,
  readArguments,
  UsageError,
  visible,
  wholeOf,
} from './options.ts';

const USAGE = `Usage: carillon tail [options]

Prints triggers as they are published, until it is ended (Ctrl-C).

  --from end|first  begin with the next trigger (default) or with the first that is kept
  --group NAME    read as a member of a consumer group, and store how far it came
  --count N       end after N triggers
${CONNECTION_USAGE}`;

const text = { type: 'string' } as const;

interface Printed {
  partition: number;
  offset: number;
  at?: string;
  key: string;
  id: string;
  headers: Readonly<Record<string, string>>;
  payload: string;
}

/** Prints the triggers of a logical cluster: a line each, or with `--json` an object each. */
export async function tailCommand(args: string[]): Promise<number> {
  const options = { ...CONNECTION, from: text, group: text, count: text };
  const { values } = readArguments(args, options, [], USAGE);
  const { from = 'end', group } = values;
  if (from !== 'end' && from !== 'first') throw new UsageError('--from is end or first', USAGE);
  if (group !== undefined && values.from !== undefined) {
    throw new UsageError('a group goes on where it stopped: leave out --from', USAGE);
  }
  const count = values.count === undefined ? Infinity : wholeOf(values.count, '--count', 1, Number.MAX_SAFE_INTEGER);
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  // Whoever read the output has enough, as in `carillon tail | head`.
  process.stdout.once('error', end);
  let printed = 0;
  const show = (trigger: Printed) => {
    if (ending.signal.aborted) return;
    print(values.json ? JSON.stringify(trigger) : lineOf(trigger));
    printed += 1;
    if (printed >= count) end();
  };
  const connection = connectionOf(values);
  if (group === undefined) await readAll(connection, from, ending.signal, show);
  else await readGroup(connection, group, ending.signal, show);
  return 0;
}

async function readAll(
  connection: ReturnType<typeof connectionOf>,
  from: 'end' | 'first',
  signal: AbortSignal,
  show: (trigger: Printed) => void,
): Promise<void> {
  const http = new Http(connection);
  const path = `/v1/clusters/${pathPart(connection.cluster, 'cluster')}/triggers?from=${from}`;
  const lines = await triggerLines(http, path, signal).catch((error: unknown) => {
    if (signal.aborted) return [];
    throw error;
  });
  for await (const line of lines) {
    if ('session' in line) process.stderr.write(`reading ${line.partitions} partitions of ${line.topic}\n`);
    else if ('payload' in line) show(line);
  }
}

async function readGroup(
  connection: ReturnType<typeof connectionOf>,
  group: string,
  signal: AbortSignal,
  show: (trigger: Printed) => void,
): Promise<void> {
  const consumer = await consumeHttp({
    ...connection,
    group,
    concurrency: 1,
    commit: 'manual',
    drainMs: 100,
    handler: async (trigger) => {
      // What comes after the end was asked for is not printed, and comes again to the group's next member.
      if (signal.aborted) return;
      const { partition, offset, key, id, headers } = trigger;
      show({ partition, offset, key, id, headers, payload: trigger.text() });
      await trigger.commit();
    },
    onEvent: (event) => {
      if (event.kind === 'disconnected') process.stderr.write(`connecting again: ${String(event.error)}\n`);
    },
  });
  const stop = () => void consumer.stop();
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  await consumer.finished;
}

/** Time of publishing, job key, execution id, payload. */
function lineOf({ at, headers, key, id, payload }: Printed): string {
  return [at ?? headers['ce_time'] ?? '', visible(key), id, visible(payload)].join('  ');
}
