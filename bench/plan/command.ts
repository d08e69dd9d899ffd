import { baselines } from '../compare.ts';
import type { Options } from '../options.ts';
import type { Result } from '../report/result.ts';
import { type Costs, costsOf } from './costs.ts';
import { ASSUMED, type Plan, plan, predictedCores } from './planner.ts';

/** `npm run bench -- plan`: the plan, where each number comes from, and how the planner fits the measured runs. */
export function planCommand({ jobs, rate, payloadBytes, envelope, delivery }: Options): number {
  const results = baselines();
  const costs = costsOf(results, envelope, delivery);
  const made = plan({ jobs, rate, payloadBytes }, costs);
  console.log(`\n${jobs} jobs, ${rate} triggers/s, ${payloadBytes} bytes of payload, ${envelope}, ${delivery}\n`);
  for (const [what, text] of rowsOf(made)) console.log(`  ${what.padEnd(22)}${text}`);
  console.log('\nFrom');
  for (const [name, { value, unit, source }] of Object.entries(costs)) {
    console.log(`  ${name.padEnd(18)}${String(value).padStart(10)} ${unit.padEnd(6)} ${source}`);
  }
  console.log('\nAssumed');
  for (const [name, value] of Object.entries(ASSUMED)) console.log(`  ${name.padEnd(22)}${value}`);
  const checked = check(results, costs);
  if (checked.length > 0) console.log('\nChecked against');
  for (const line of checked) console.log(`  ${line}`);
  for (const line of made.beyond) console.error(`BEYOND: ${line}`);
  return made.beyond.length === 0 ? 0 : 1;
}

function rowsOf(made: Plan): [string, string][] {
  const n = (value: number, digits = 0): string => value.toLocaleString('en-US', { maximumFractionDigits: digits });
  return [
    ['workers', `${n(made.workers)} (${n(made.wheels)} wheels, ${n(made.workerCores)} cores; one worker is spare)`],
    ['slots', n(made.slots)],
    ['shards', `${n(made.shards)} (by ${made.decides.shards})`],
    ['brokers', `${n(made.brokers)} of ${ASSUMED.coresPerBroker} cores (by ${made.decides.brokers})`],
    ['partitions', n(made.partitions)],
    ['Redis', `${n(made.redisNodes)} nodes with replicas, ${n(made.redisGb, 1)} GB of data`],
    ['MongoDB disk', `${n(made.mongodbDiskGb, 1)} GB on each member`],
    ['Kafka disk', `${n(made.kafkaDiskGb)} GB over all brokers for ${ASSUMED.retentionS} s`],
    ['Kafka network', `${n(made.kafkaInMbS)} MB/s in, ${n(made.kafkaOutMbS)} MB/s out, over all brokers`],
    ['registration', `${n(made.registerMinutes, 1)} min for all jobs at the measured rate`],
    ['head-room', `${n((1 - ASSUMED.usedPart) * 100)} % of each core, link and memory`],
  ];
}

/** The measured runs beside what the planner would have said. */
export function check(results: readonly Result[], costs: Costs): string[] {
  return results
    .filter(({ name, cpu_us_per_trigger }) => name === 'sustained' && cpu_us_per_trigger !== undefined)
    .map(({ config, fired_per_s = 0, cpu_us_per_trigger = {} }) => {
      const own = costsOf(results, config.envelope, config.delivery);
      const same = own.workerUs.source === costs.workerUs.source ? '' : ' (costs of its own kind)';
      const predicted = predictedCores(fired_per_s, own);
      const { worker = 0, kafka = 0, redis = 0, mongodb = 0 } = cpu_us_per_trigger;
      const measured = (fired_per_s * (worker + kafka + redis + mongodb)) / 1e6;
      const gap = Math.round((predicted / measured - 1) * 100);
      const rate = Math.round(fired_per_s).toLocaleString('en-US');
      return `${rate}/s ${config.envelope}, ${config.delivery}: ${predicted.toFixed(2)} cores planned, ${measured.toFixed(2)} used (${gap >= 0 ? '+' : ''}${gap} %)${same}`;
    });
}
