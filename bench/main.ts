/**
 * `npm run bench -- NAME [options]`: runs one benchmark, prints its table, writes JSON and picture, and ends with exit code 1
 * when it misses a limit of `limits.ts`. `README.md` says how it measures.
 */
import { diff } from './compare.ts';
import { faultsOf } from './limits.ts';
import { api } from './names/api.ts';
import type { Bench } from './names/bench.ts';
import { burst } from './names/burst.ts';
import { embedded } from './names/embedded.ts';
import { hour } from './names/hour.ts';
import { oneshot } from './names/oneshot.ts';
import { precision } from './names/precision.ts';
import { rateMix } from './names/rate-mix.ts';
import { raw } from './names/raw.ts';
import { register } from './names/register.ts';
import { saturation } from './names/saturation.ts';
import { scale } from './names/scale.ts';
import { scaleWorkers } from './names/scale-workers.ts';
import { sustained } from './names/sustained.ts';
import { readOptions, UsageError } from './options.ts';
import { planCommand } from './plan/command.ts';
import { writeResult } from './report/files.ts';
import { medianOf, type Result } from './report/result.ts';
import { printResult } from './report/table.ts';

const BENCHES: Readonly<Record<string, Bench>> = {
  raw,
  sustained,
  saturation,
  burst,
  precision,
  oneshot,
  register,
  'rate-mix': rateMix,
  scale,
  'scale-workers': scaleWorkers,
  embedded,
  api,
  hour,
};

const USAGE = `npm run bench -- NAME [--jobs N --period MS --seconds S --workers W --wheels W --partitions P
  --envelope compact|cloudevents --delivery at-least-once|exactly-once --compression none|lz4|zstd --payload BYTES
  --warm-up S --lead S --raw S --step N --rate N --levels N,N --runs N --json FILE]

${Object.entries(BENCHES)
  .map(([name, { what }]) => `  ${name.padEnd(15)}${what}`)
  .join('\n')}
  plan           what JOBS jobs with RATE triggers/s of PAYLOAD bytes need
  diff           compares results, FILE.json ..., with those of baseline/
`;

async function main(args: readonly string[]): Promise<number> {
  const asked = readOptions(args);
  if (asked.help || asked.name === '') {
    process.stdout.write(USAGE);
    return asked.help ? 0 : 2;
  }
  if (asked.name === 'diff') return diff(asked.rest);
  if (asked.name === 'plan') return planCommand(asked.over({ rate: 1_000_000 }));
  const bench = BENCHES[asked.name];
  if (bench === undefined) throw new UsageError(`there is no bench "${asked.name}"`);
  const options = asked.over(bench.defaults);
  const begun = performance.now();
  const log = (line: string): void => {
    console.log(`${((performance.now() - begun) / 1_000).toFixed(1).padStart(6)} s  ${line}`);
  };
  const results: Result[] = [];
  const runs = bench.ownRuns ? 1 : options.runs;
  for (let run = 1; run <= runs; run += 1) {
    if (runs > 1) log(`run ${run} of ${runs}`);
    results.push(await bench.run(options, log));
  }
  const result = medianOf(results);
  const faults = faultsOf(result);
  printResult(result, faults);
  if (options.json !== null) writeResult(options.json, result);
  return faults.length === 0 ? 0 : 1;
}

// Whoever ends the benchmark ends what it started: exit handlers run on exit, not on a signal.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`);
  else console.error(error);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
