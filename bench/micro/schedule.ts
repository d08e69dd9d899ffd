/**
 * Next occurrences per second on one core, printed against the product's floor: 2,000,000 for a fixed rate and 300,000 for
 * cron without the memory of shared crons. Exit code 1 if a floor is missed.
 */
import { compileCron } from '../../src/core/schedule/cron/compile.ts';
import { compileSchedule } from '../../src/core/schedule/schedule.ts';

const START_MS = Date.UTC(2027, 0, 1);
const RATE_FLOOR = 2_000_000;
const CRON_FLOOR = 300_000;

/** Expressions from dense to sparse, in a zone without and one with clock changes. */
const EXPRESSIONS = [
  '* * * * * *',
  '*/5 * * * *',
  '30 2 * * *',
  '0 9 * * MON-FRI',
  '0 0 1,15 * FRI',
  '0 0 12 L * ?',
  '0 0 29 2 *',
];
const ZONES = ['UTC', 'America/New_York'];

/** Calls per second of `next`, each from the answer before; the best of five rounds, since others use the machine too. */
function perSecond(next: (afterMs: number) => number, calls: number): number {
  let best = 0;
  for (let round = 0; round < 5; round++) {
    let at = START_MS;
    const begun = performance.now();
    for (let i = 0; i < calls; i++) {
      at = next(at);
      if (at < 0) at = START_MS;
    }
    best = Math.max(best, calls / ((performance.now() - begun) / 1000));
  }
  return best;
}

function report(name: string, measured: number, floor: number): boolean {
  const met = measured >= floor;
  console.log(
    `${name.padEnd(48)} ${Math.round(measured).toLocaleString('en').padStart(12)} /s  ${met ? 'ok' : `below ${floor}`}`,
  );
  return met;
}

const context = { createdMs: START_MS };
const rate = compileSchedule({ kind: 'rate', everyMs: 1_000, anchorMs: START_MS }, {}, context);
let met = report(
  'rate, 1 s',
  perSecond((at) => rate.next(at), 2_000_000),
  RATE_FLOOR,
);
for (const expression of EXPRESSIONS) {
  for (const zone of ZONES) {
    const cron = compileCron({ kind: 'cron', expression, zone }, undefined);
    met =
      report(
        `cron, uncached, ${expression}, ${zone}`,
        perSecond((at) => cron.search(at), 200_000),
        CRON_FLOOR,
      ) && met;
  }
}
const shared = compileCron({ kind: 'cron', expression: '0 9 * * MON-FRI', zone: 'Europe/Paris' }, undefined);
const askAgain = (): number => {
  shared.next(START_MS);
  return START_MS;
};
report('cron, same question by many jobs (memory)', perSecond(askAgain, 2_000_000), CRON_FLOOR);
process.exitCode = met ? 0 : 1;
