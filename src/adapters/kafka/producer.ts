import { initProducerIdV5 } from '@platformatic/kafka';
import { prepareHead } from '../../core/trigger-bytes.ts';
import type { BusProducer } from '../../ports/bus.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Cluster } from './cluster.ts';
import type { Identity } from './record-batch.ts';
import { Sender } from './sender.ts';

/** Records that a producer holds at most; its callers bound what they have on the way far below. */
const MAX_RECORDS = 200_000;

/** An idempotent producer: a repeat of ours never doubles a record. */
export async function openProducer(cluster: Cluster, telemetry: Telemetry): Promise<BusProducer> {
  const renew = (): Promise<Identity> => newIdentity(cluster);
  const identity = await renew();
  telemetry.gauge('kafka_producer_records_max', MAX_RECORDS);
  const pool = cluster.openPool();
  const sender = new Sender(cluster, pool, {
    transactionalId: null,
    identity,
    renew,
    deliveryTimeoutMs: cluster.settings.deliveryTimeoutMs,
    maxRecords: MAX_RECORDS,
  });
  return {
    triggers: () => sender.triggers(),
    prepare: prepareHead,
    async send(batch) {
      const answer = sender.send(batch);
      telemetry.gauge('kafka_producer_records', sender.records);
      try {
        return await answer;
      } finally {
        telemetry.gauge('kafka_producer_records', sender.records);
      }
    },
    async close() {
      sender.close();
      await cluster.closePool(pool);
    },
  };
}

async function newIdentity(cluster: Cluster): Promise<Identity> {
  const { producerId, producerEpoch } = await cluster.repeat('a producer id', async () =>
    initProducerIdV5.api.async(await cluster.anyone(), null, 0),
  );
  return { producerId, epoch: producerEpoch };
}
