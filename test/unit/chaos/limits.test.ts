import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { LIMITS } from '../../chaos/limits.ts';
import { STAGES } from '../../chaos/stages.ts';

const design = readFileSync(new URL('../../../src/DESIGN.md', import.meta.url), 'utf8');

/** Cells of the table that begins with this heading. */
function table(heading: string): string[][] {
  const lines = design.slice(design.indexOf(heading)).split('\n');
  const rows = lines.slice(2, lines.indexOf(''));
  return rows.map((row) => row.slice(2, -2).split(' | '));
}

it('the limits of the suite are those of the design, word by word', () => {
  expect(design).toContain('| fault, under 100,000 triggers/s unless said | must show |');
  expect(Object.values(LIMITS).map(({ row }) => [...row])).toEqual(table('| fault, under 100,000'));
});

it('numbers of the limits are those of their text', () => {
  const { workerKilled, moved, redisFlushed, redisPrimaryKilled, kafkaLeaderKilled } = LIMITS;
  expect(workerKilled.row[1]).toContain(`max lateness <= ${workerKilled.maxLatenessMs / 1_000} s`);
  expect(moved.row[1]).toContain(`max lateness <= ${moved.maxLatenessMs} ms`);
  expect(redisFlushed.row[1]).toContain(`within ${redisFlushed.recoveredMs / 1_000} s`);
  expect(redisPrimaryKilled.row[1]).toContain(`max lateness <= ${redisPrimaryKilled.maxLatenessMs / 1_000} s`);
  expect(kafkaLeaderKilled.row[1]).toContain(`within ${kafkaLeaderKilled.maxLatenessMs / 1_000} s of the new leader`);
});

it('every line of the table has faults that are judged by it, but for those that others judge', () => {
  const used = new Set<unknown>(STAGES.flatMap(({ faults }) => faults.map(({ bounds }) => bounds)));
  const unused = Object.entries(LIMITS).filter(([, limit]) => !used.has(limit));
  // The simulation has its own command; answers are judged over all faults.
  expect(unused.map(([name]) => name)).toEqual(['simulated', 'answered']);
});
