/**
 * `npm run build`: the published form. Node refuses to run TypeScript from inside node_modules, so `dist` holds JavaScript,
 * types, the Redis scripts, and a package.json without the parts that only this repository needs: scripts, development
 * dependencies, and the Node binaries, which a user of the package brings along.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

export function build(outDir = join(root, 'dist')): string {
  rmSync(outDir, { recursive: true, force: true });
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', outDir], {
    cwd: root,
    stdio: 'inherit',
  });
  for (const file of globSync('src/**/*.lua', { cwd: root })) {
    mkdirSync(dirname(join(outDir, file)), { recursive: true });
    cpSync(join(root, file), join(outDir, file));
  }
  cpSync(join(root, 'README.md'), join(outDir, 'README.md'));
  const source = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const { name, version, description, license, type, dependencies } = source;
  const published = {
    name,
    version,
    description,
    license,
    type,
    engines: { node: '>=24' },
    bin: { carillon: './src/cli/main.js' },
    exports: { '.': { types: './src/sdk/index.d.ts', default: './src/sdk/index.js' } },
    dependencies,
  };
  writeFileSync(join(outDir, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  return outDir;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(build());
