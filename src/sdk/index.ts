/**
 * Carillon's SDK: register jobs, and consume their triggers.
 *
 * ```ts
 * import { CarillonClient, consumeKafka, redisDeduplicator } from 'carillon';
 * import { Redis } from 'ioredis';
 *
 * const carillon = new CarillonClient({ url: 'http://127.0.0.1:7171', apiKey: process.env.CARILLON_API_KEY });
 * await carillon.jobs.put({
 *   key: 'billing/invoices',
 *   schedule: { kind: 'cron', expression: '0 6 1 * *', zone: 'Europe/Madrid' },
 *   payload: { run: 'invoices' },
 * });
 *
 * const consumer = await consumeKafka({
 *   kafka: { brokers: ['127.0.0.1:9092'] },
 *   group: 'billing',
 *   concurrency: 20,
 *   deduplicator: redisDeduplicator(new Redis()),
 *   topics: {
 *     'carillon.triggers.default': async (trigger) => {
 *       await runInvoices(trigger.key, trigger.nominal, trigger.payload());
 *     },
 *   },
 * });
 * process.once('SIGTERM', () => consumer.stop());
 * await consumer.finished;
 * ```
 *
 * Beside an embedded Carillon the same handler is given to `consumeHttp({ url, group, handler })`, or in one process to
 * `consumeBus(bus, { group, handler })`. Handlers of one job run one after another, in order; a handler that rejects is
 * called again, and its job waits.
 *
 * The client needs nothing but `fetch`; kafkajs is loaded by `consumeKafka` when it is called.
 */
export type {
  ClusterForm,
  JobForm,
  JobPatch,
  JobView,
  PreviewForm,
  ScheduleForm,
} from '../core/form/job-form.ts';
export type { CalendarDefinition } from '../core/schedule/types.ts';
export { ApiError } from './api-error.ts';
export type { BulkItem, BulkOptions, BulkSource } from './bulk.ts';
export { type BusConsumerOptions, consumeBus, type TriggerBus } from './bus-consumer.ts';
export { CarillonClient, type ClientOptions } from './client.ts';
export type { ConsumerEvent, ConsumerOptions, RetryPolicy, RunningConsumer, TriggerHandler } from './consumer.ts';
export { type Claim, type Deduplicator, type RedisCommands, redisDeduplicator } from './deduplicator.ts';
export { consumeHttp, type HttpConsumerOptions } from './http-consumer.ts';
export { consumeKafka, type KafkaConsumerOptions } from './kafka-consumer.ts';
export type { OperationView } from './operation.ts';
export type { Trigger } from './trigger.ts';
