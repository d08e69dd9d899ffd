/**
 * What each stage costs, taken from measured results: those of `baseline/` where there is one that shows it, else the
 * figures of `costs.json`. Each has its source, so that a plan can be traced to a run.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Options } from '../options.ts';
import type { Result } from '../report/result.ts';

export interface Cost {
  value: number;
  unit: string;
  /** The run that it comes from. */
  source: string;
}

export interface Costs {
  /** CPU of each part per trigger, in us. */
  workerUs: Cost;
  kafkaUs: Cost;
  redisUs: Cost;
  mongodbUs: Cost;
  /** What a trigger takes in the log beside its payload, in bytes: key, id, headers, framing. */
  envelopeBytes: Cost;
  /** Records a second that one broker of the measured machine took from the encoder. */
  rawPerS: Cost;
  /** Memory of Redis per job beside its payload, disk of MongoDB per job likewise, in bytes. */
  redisBytes: Cost;
  mongodbBytes: Cost;
  /** Jobs registered per second on the measured machine. */
  registeredPerS: Cost;
}

const KEPT = join(import.meta.dirname, 'costs.json');

type Envelope = Options['envelope'];
type Delivery = Options['delivery'];

/** Costs of one envelope and delivery; `results` are those of the baseline. */
export function costsOf(results: readonly Result[], envelope: Envelope, delivery: Delivery): Costs {
  const kept = JSON.parse(readFileSync(KEPT, 'utf8')) as Record<keyof Costs, Cost>;
  // The largest load of a kind: what each request costs beside its triggers weighs least there, as in a large installation.
  const sustained = results
    .filter(({ name, config }) => name === 'sustained' && config.envelope === envelope && config.delivery === delivery)
    .sort((a, b) => (b.fired_per_s ?? 0) - (a.fired_per_s ?? 0))[0];
  const register = results.find(({ name }) => name === 'register');
  const found: Partial<Costs> = {
    ...(sustained === undefined ? {} : fromSustained(sustained)),
    ...(register === undefined ? {} : fromRegister(register)),
  };
  return { ...kept, ...found };
}

const sourceOf = ({ name, config, fired_per_s }: Result): string =>
  name === 'sustained'
    ? `baseline, sustained ${Math.round(fired_per_s ?? 0)}/s, ${config.envelope}, ${config.delivery}`
    : `baseline, ${name} of ${config.jobs} jobs`;

function fromSustained(result: Result): Partial<Costs> {
  const source = sourceOf(result);
  const cost = (value: unknown, unit: string): Cost => ({ value: Number(value), unit, source });
  const { worker, kafka, redis, mongodb } = result.cpu_us_per_trigger ?? {};
  const bytes = Number(result['bytes_per_trigger']) - result.config.payloadBytes;
  return {
    ...(worker !== undefined && { workerUs: cost(worker, 'us') }),
    ...(kafka !== undefined && { kafkaUs: cost(kafka, 'us') }),
    ...(redis !== undefined && { redisUs: cost(redis, 'us') }),
    ...(mongodb !== undefined && { mongodbUs: cost(mongodb, 'us') }),
    ...(bytes > 0 && { envelopeBytes: cost(bytes, 'bytes') }),
    ...(result.raw_limit_per_s !== undefined && { rawPerS: cost(result.raw_limit_per_s, '/s') }),
  };
}

function fromRegister(result: Result): Partial<Costs> {
  const source = sourceOf(result);
  const { payloadBytes } = result.config;
  const beside = (path: string): Cost | null => {
    const value = Number(result[path]) - payloadBytes;
    return value > 0 ? { value: Math.round(value), unit: 'bytes', source } : null;
  };
  const redis = beside('redis_bytes_per_job');
  const mongodb = beside('mongodb_bytes_per_job');
  return {
    ...(redis && { redisBytes: redis }),
    ...(mongodb && { mongodbBytes: mongodb }),
    registeredPerS: { value: Number(result['registered_per_s']), unit: '/s', source },
  };
}
