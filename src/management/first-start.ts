import { randomBytes } from 'node:crypto';
import { carillonError, isCode } from '../core/errors.ts';
import type { Delivery } from '../core/job.ts';
import { zoneDataVersion } from '../core/schedule/zones/rules.ts';
import { zoneFingerprints, zonesChanged } from '../core/schedule/zones/zone.ts';
import { TOPICS, triggerTopic } from '../core/topics.ts';
import type { Bus, TopicSpec } from '../ports/bus.ts';
import type { Installation } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Changes } from './changes.ts';
import { recompute } from './recompute.ts';
import { CLUSTER_PARTITIONS, type TriggerRetention, triggerTopicSpec } from './trigger-topics.ts';

/** Version of the form of stored data that this program writes. */
const DATA_VERSION = 1;

/** Answers are read by processes that stand at the end; an hour lets one that hangs go on. */
const ANSWERS_RETENTION_MS = 3_600_000;
/** Changes and fast-path messages are needed until they are applied and covered; a week outlasts any mended fault. */
const CHANGES_RETENTION_MS = 7 * 86_400_000;
const ANSWERS_PARTITIONS = 1;

export interface FirstStart {
  slotsPerSet: number;
  lanesPerSlot: number;
  changesPartitions: number;
  /** Deliveries of the cluster `default`, the best first: it takes the first that the bus can keep. */
  deliveries: readonly [Delivery, ...Delivery[]];
  /** How long, and up to how many bytes in all, the topic of `default` keeps its triggers; absent: as the bus has it. */
  triggerRetention?: TriggerRetention;
}

/**
 * What must stand before any process works, made at the first start and found at every later one: the installation, the
 * topics of the engine, the logical cluster `default`. Several processes may start at once. What the installation fixed
 * wins over what is asked for now.
 *
 * @throws CarillonError `setup-refused` when the data are of a newer program
 */
export async function firstStart(
  { catalog, bus }: Pick<Stores, 'catalog' | 'bus'>,
  clock: Clock,
  asked: FirstStart,
): Promise<Installation> {
  const { slotsPerSet, lanesPerSlot, changesPartitions, deliveries, triggerRetention } = asked;
  const installation = await catalog.installation({
    id: `carillon-${randomBytes(6).toString('hex')}`,
    dataVersion: DATA_VERSION,
    slotsPerSet,
    lanesPerSlot,
    changesPartitions,
    zoneDataVersion,
    zoneFingerprints: zoneFingerprints(),
  });
  if (installation.dataVersion > DATA_VERSION) {
    throw carillonError(
      'setup-refused',
      `the stored data have version ${installation.dataVersion} and this program knows ${DATA_VERSION}: start the newer program`,
    );
  }
  await bus.ensureTopics(engineTopics(installation));
  if ((await catalog.cluster('default')) === null) {
    const topic = triggerTopic('default');
    const delivery = await makeTriggerTopic(bus, topic, deliveries, triggerRetention);
    await catalog.createCluster({
      name: 'default',
      topic,
      partitions: CLUSTER_PARTITIONS,
      envelope: 'cloudevents',
      delivery,
      createdMs: clock.wallMs(),
    });
  }
  return installation;
}

async function makeTriggerTopic(
  bus: Bus,
  topic: string,
  [delivery, ...worse]: readonly Delivery[],
  retention: TriggerRetention | undefined,
): Promise<Delivery> {
  try {
    await bus.ensureTopics([triggerTopicSpec(topic, CLUSTER_PARTITIONS, delivery!, retention)]);
    return delivery!;
  } catch (error) {
    if (worse.length === 0 || !isCode(error, 'delivery-unsupported')) throw error;
    return await makeTriggerTopic(bus, topic, worse, retention);
  }
}

function engineTopics({ changesPartitions, slotsPerSet }: Installation): TopicSpec[] {
  const slots = 2 * slotsPerSet;
  return [
    { name: TOPICS.changes, partitions: changesPartitions, retentionMs: CHANGES_RETENTION_MS },
    { name: TOPICS.answers, partitions: ANSWERS_PARTITIONS, retentionMs: ANSWERS_RETENTION_MS },
    { name: TOPICS.fast, partitions: slots, retentionMs: CHANGES_RETENTION_MS },
    { name: TOPICS.progress, partitions: slots, compacted: true },
    { name: TOPICS.cursors, partitions: slots, compacted: true },
  ];
}

/**
 * Once the API runs: where this program's zone data are others than those in force, the jobs of the zones that differ are
 * timed anew, and then the data are in force. A crash in between begins again; no job is recomputed twice for it unless it
 * was changed meanwhile.
 */
export async function adoptZoneData(
  deps: { stores: Stores; changes: Changes; clock: Clock; telemetry: Telemetry },
  installation: Installation,
): Promise<{ zones: string[]; jobs: number }> {
  const { zoneDataVersion: stored, zoneFingerprints: fingerprints } = installation;
  if (stored === zoneDataVersion) return { zones: [], jobs: 0 };
  const zones = zonesChanged(fingerprints);
  const jobs = zones.length === 0 ? 0 : await recompute(deps, { zones }, `zones/${zoneDataVersion}`);
  await deps.stores.catalog.setZoneData(stored, zoneDataVersion, zoneFingerprints());
  deps.telemetry.event('info', 'other zone data are in force', { from: stored, to: zoneDataVersion, zones, jobs });
  return { zones, jobs };
}
