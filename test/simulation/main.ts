import { parseArgs } from 'node:util';
import { Simulation } from './simulation.ts';

/**
 * Runs seeds of the simulation: `--seeds N` from `--from F` on (or one, `--seed N`), each `--minutes M` or `--hours H` of
 * simulated time. Ends with 1 and the trace of the first seed that broke an invariant.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '20' },
    from: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
    hours: { type: 'string' },
    dense: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const minutes = values.hours === undefined ? Number(values.minutes) : Number(values.hours) * 60;
const from = Number(values.seed ?? values.from);
const seeds = values.seed === undefined ? Number(values.seeds) : 1;
/** A long seed is a usual day, a short one a very bad ten minutes. */
const long = minutes > 60;
const usual = long
  ? { faultEveryMs: 180_000, actEveryMs: 30_000, jobsMost: 12 }
  : { faultEveryMs: 14_000, actEveryMs: 3_500, jobsMost: 14 };

/** Everything happens more often, and Redis keeps what it has: planted bugs are found sooner, and by what they break. */
const pace = values.dense ? { faultEveryMs: 6_000, actEveryMs: 1_200, jobsMost: 25 } : usual;

const redis = { redisForgets: !values.dense };

const begunMs = performance.now();
const sum = { published: 0, repeated: 0, moved: 0, steps: 0, failed: 0 };
for (let seed = from; seed < from + seeds; seed += 1) {
  const result = await new Simulation({ seed, minutes, ...pace, ...redis }).run();
  sum.published += result.published;
  sum.repeated += result.repeated;
  sum.moved += result.moved;
  sum.steps += result.steps;
  if (result.failure === null && !values.trace) continue;
  if (!values.keep) console.log(result.trace.join('\n'));
  if (result.failure === null) continue;
  const { invariant, detail, atMs } = result.failure;
  console.log(`seed ${seed} broke ${invariant} after ${(atMs / 1_000).toFixed(3)} s: ${detail}`);
  console.log(`again: npm run test:simulation -- --seed ${seed} --minutes ${minutes}${values.dense ? ' --dense' : ''}`);
  sum.failed += 1;
  if (!values.keep) break;
}
const cpu = process.cpuUsage();
const seconds = `${((performance.now() - begunMs) / 1_000).toFixed(1)} s (${((cpu.user + cpu.system) / 1e6).toFixed(1)} s of CPU)`;
console.log(
  `${seeds} seeds of ${minutes} simulated minutes in ${seconds}: ${sum.published} triggers, ${sum.repeated} repeated, ` +
    `${sum.moved} moves, ${sum.steps} steps, ${sum.failed} failed`,
);
process.exitCode = sum.failed > 0 ? 1 : 0;
