import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../../', import.meta.url);

test('every test that the crash matrix of the design document names exists', () => {
  const design = readFileSync(new URL('src/DESIGN.md', root), 'utf8');
  const section = /^## Crash matrix$([\s\S]*?)(?=^## )/m.exec(design)![1]!;
  const rows = section.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| step'));
  expect(rows.length).toBeGreaterThan(30);
  const lacking = rows.flatMap((row) => {
    const [, file = '', name = ''] = /\| `(test\/[^`]+)`: "([^"]+)" \|$/.exec(row) ?? [];
    const path = new URL(file, root);
    return file !== '' && existsSync(path) && readFileSync(path, 'utf8').includes(name) ? [] : [row];
  });
  expect(lacking).toEqual([]);
});
