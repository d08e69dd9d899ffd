import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** Every module that an import loads, seen by a hook in a process of its own. */
function loadedBy(file: string): string[] {
  const script = `
    import { registerHooks } from 'node:module';
    const seen = [];
    registerHooks({ resolve: (name, context, next) => { const found = next(name, context); seen.push(found.url); return found; } });
    await import(${JSON.stringify(new URL(file, import.meta.url).href)});
    process.stdout.write(JSON.stringify(seen));
  `;
  return JSON.parse(
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }),
  ) as string[];
}

test('the SDK loads no package until a consumer is started, and of Carillon only core', () => {
  const loaded = loadedBy('../../../src/sdk/index.ts');
  expect(loaded.filter((url) => url.endsWith('/src/sdk/client.ts'))).not.toEqual([]);
  expect(loaded.filter((url) => url.includes('/node_modules/'))).toEqual([]);
  expect(loaded.filter((url) => /\/src\/(?!sdk\/|core\/)/.test(url))).toEqual([]);
});
