/**
 * `npm run test:chaos -- --minutes M --seed S --json FILE`: real servers and processes, faults at times by the seed, and an
 * independent reader that counts every copy of every trigger. It prints what each fault cost, and fails where that is more than
 * the table of src/DESIGN.md allows.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type ChaosResult, merged, printTable } from './result.ts';
import { runStage, type StageOptions, type StageResult } from './run.ts';
import { FAULT_NAMES, SHORT, type Stage, stagesOf } from './stages.ts';
import type { Delivery } from './world.ts';

const USAGE = `npm run test:chaos -- [options]

  --minutes M     faults for this long, over all stages; each at least once (default 15)
  --seed S        the same faults in the same order (default 1)
  --rate N        triggers per second (default 5000)
  --jobs N        jobs, half of them every 30 s (default 20000)
  --one-shots N   immediate one-shots per second of the fault that has them (default 2000)
  --faults a,b    these of ${FAULT_NAMES.join(', ')}
  --delivery D    exactly-once or at-least-once (default: exactly-once, and the other where that is refused)
  --short         the form of npm test: four faults, few jobs, short waits, and five times the table's lateness
  --json FILE     writes the result
`;

/** Tests run on machines that do other work as well: there lateness says little, and what is lost or doubled all. */
const SHORT_SLACK = 5;

interface Asked extends Omit<StageOptions, 'forMs'> {
  minutes: number;
  stages: Stage[];
  json: string | null;
}

function asked(): Asked {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string', default: '1' },
      rate: { type: 'string' },
      jobs: { type: 'string' },
      'one-shots': { type: 'string' },
      faults: { type: 'string' },
      delivery: { type: 'string' },
      short: { type: 'boolean', default: false },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const { short } = values;
  const names = values.faults?.split(',') ?? (short ? SHORT : FAULT_NAMES);
  for (const name of names) if (!FAULT_NAMES.includes(name)) throw new Error(`there is no fault ${name}\n\n${USAGE}`);
  const deliveries: readonly Delivery[] = ['exactly-once', 'at-least-once'];
  const wanted = deliveries.filter((one) => values.delivery === undefined || values.delivery === one);
  if (wanted.length === 0) throw new Error(`there is no delivery ${values.delivery}\n\n${USAGE}`);
  return {
    minutes: number('minutes', values.minutes, short ? 0 : 15),
    seed: number('seed', values.seed, 1),
    perSecond: number('rate', values.rate, short ? 1_000 : 5_000),
    jobs: number('jobs', values.jobs, short ? 4_000 : 20_000),
    oneShotsPerSecond: number('one-shots', values['one-shots'], 2_000),
    scale: short ? 0.15 : 1,
    slack: short ? SHORT_SLACK : 1,
    deliveries: wanted,
    stages: stagesOf(names),
    json: values.json ?? null,
    log: (line) => console.log(line),
  };
}

function number(option: string, text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`--${option} takes a number, not ${text}\n\n${USAGE}`);
}

async function main(): Promise<number> {
  const options = asked();
  const { seed, minutes } = options;
  const stages: Stage[] = [];
  const skipped: ChaosResult['skipped'] = [];
  for (const stage of options.stages) {
    const reason = stage.refusal?.() ?? null;
    if (reason === null) stages.push(stage);
    else for (const { name } of stage.faults) skipped.push({ name, reason });
  }
  const all = stages.reduce((sum, { faults }) => sum + faults.length, 0);
  const done: StageResult[] = [];
  for (const stage of stages) {
    const forMs = (minutes * 60_000 * stage.faults.length) / all;
    const once = await runStage(stage, { ...options, forMs });
    done.push(once);
    // A world that a fault has broken is no world for the next one.
    if (once.left.length > 0) done.push(await runStage({ ...stage, faults: once.left }, { ...options, forMs: 0 }));
  }
  if (done.length === 0) throw new Error(`nothing was done: ${JSON.stringify(skipped)}`);
  const delivery = done[0]!.delivery;
  const [first] = options.deliveries;
  const expected = done.reduce((sum, one) => sum + one.expected, 0);
  const seconds = done.reduce((sum, one) => sum + one.seconds, 0);
  const result: ChaosResult = {
    seed,
    minutes,
    offered_per_s: Math.round(expected / seconds),
    delivery,
    delivery_refused: first === undefined || first === delivery ? null : first,
    skipped,
    faults: merged(done.flatMap(({ results }) => results)),
  };
  printTable(result);
  if (options.json !== null) writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`);
  return result.faults.every(({ wrong }) => wrong.length === 0) ? 0 : 1;
}

// Whoever ends the suite ends what it started: servers and processes die with this one.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));
process.exitCode = await main();
