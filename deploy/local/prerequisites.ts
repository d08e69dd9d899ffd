import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { KAFKA, REDIS_PACKAGES } from './pins.ts';
import type { ServerName } from './settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** One thing that the machine lacks, and the step that mends it. */
export interface Missing {
  readonly what: string;
  readonly mend: string;
}

/** Everything that is missing, in one error, so that a person mends it in one go. */
export class MissingPrerequisites extends Error {
  readonly missing: readonly Missing[];

  constructor(missing: readonly Missing[]) {
    const lines = missing.map(({ what, mend }) => `  - ${what}\n      mend: ${mend}`);
    super(`this machine lacks what the local servers need:\n${lines.join('\n')}`);
    this.name = 'MissingPrerequisites';
    this.missing = missing;
  }
}

export interface Needs {
  /** The servers that are to be started. */
  readonly servers: readonly ServerName[];
  /** Those of them whose files are already there, so that nothing has to be fetched. */
  readonly downloaded: readonly ServerName[];
  readonly dieWithOwner: boolean;
}

/** What is missing for these needs under this environment; empty when all is there. */
export function missingPrerequisites(needs: Needs, env: Environment = process.env): Missing[] {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return [
      {
        what: `Linux on x64 (this is ${process.platform} on ${process.arch})`,
        mend: 'docker compose -f deploy/compose.yaml up --wait, and give the servers by CARILLON_… settings',
      },
    ];
  }
  const missing: Missing[] = [];
  const toFetch = needs.servers.filter((name) => !needs.downloaded.includes(name));
  if (toFetch.includes('mongodb')) missing.push(...missingPip(env));
  if (toFetch.includes('redis') && !systemRedis(env)) missing.push(...missingApt(env));
  if (needs.servers.includes('kafka')) {
    const java = findJava(env);
    if ('what' in java) missing.push(java);
    if (toFetch.includes('kafka') && !findProgram('mvn', env)) {
      missing.push({ what: 'mvn (Maven 3.6 or newer)', mend: 'apt-get install maven' });
    }
  }
  if (needs.dieWithOwner && !findProgram('setpriv', env)) {
    missing.push({ what: 'setpriv', mend: 'apt-get install util-linux' });
  }
  return missing;
}

function missingPip(env: Environment): Missing[] {
  const python = findProgram('python3', env);
  if (!python) return [{ what: 'python3 with pip', mend: 'apt-get install python3 python3-pip' }];
  if (spawnSync(python, ['-m', 'pip', '--version'], { env: { ...env }, stdio: 'ignore' }).status === 0) return [];
  return [{ what: `pip of ${python}`, mend: 'apt-get install python3-pip' }];
}

function missingApt(env: Environment): Missing[] {
  const mend = `install redis-server ${REDIS_PACKAGES.leastMajor} or newer and put it on the PATH`;
  return ['apt-get', 'dpkg']
    .filter((program) => !findProgram(program, env))
    .map((program) => ({ what: `${program} (it fetches redis-server)`, mend }));
}

/** The java to run the broker with: CARILLON_JAVA, else that of JAVA_HOME, else the one on the PATH. */
export function findJava(env: Environment = process.env): { readonly java: string } | Missing {
  const setting = env['CARILLON_JAVA'];
  const home = env['JAVA_HOME'];
  const java = setting || (home ? join(home, 'bin', 'java') : findProgram('java', env));
  const wanted = `Java ${KAFKA.leastJava} or newer`;
  const mend = 'apt-get install openjdk-17-jre-headless, or set CARILLON_JAVA to a java program';
  if (!java) return { what: wanted, mend };
  if (!isProgram(java)) return { what: `${wanted} (there is no program ${java})`, mend };
  const answer = spawnSync(java, ['-version'], { encoding: 'utf8' });
  const major = javaMajor(`${answer.stderr}${answer.stdout}`);
  if (major >= KAFKA.leastJava) return { java };
  return { what: `${wanted} (${java} is ${major > 0 ? `Java ${major}` : 'not a Java that answers'})`, mend };
}

/** `openjdk version "17.0.15"` is 17, and the old way of counting, `"1.8.0_412"`, is 8; 0 when there is no version. */
export function javaMajor(answer: string): number {
  const version = /version "(?:1\.)?(\d+)/.exec(answer)?.[1];
  return version === undefined ? 0 : Number(version);
}

/** A redis-server on the PATH, if it is new enough. */
export function systemRedis(env: Environment = process.env): string | null {
  const program = findProgram('redis-server', env);
  if (!program) return null;
  const major = Number(redisVersion(program).split('.')[0]);
  return major >= REDIS_PACKAGES.leastMajor ? program : null;
}

/** The version that a redis-server tells of itself, like `7.0.15`; `0` when it does not. */
export function redisVersion(program: string, libraryPath = ''): string {
  const env = libraryPath ? { ...process.env, LD_LIBRARY_PATH: libraryPath } : process.env;
  const answer = spawnSync(program, ['--version'], { encoding: 'utf8', env });
  return /v=(\d+\.\d+\.\d+)/.exec(answer.stdout ?? '')?.[1] ?? '0';
}

/** Shared libraries that a program asks for and this machine does not have, with the Debian package of each. */
export function missingLibraries(program: string, libraryPath: string): Missing[] {
  const ldd = findProgram('ldd');
  if (!ldd) return [{ what: 'ldd', mend: 'apt-get install libc-bin' }];
  const listing = execFileSync(ldd, [program], {
    encoding: 'utf8',
    env: { ...process.env, LD_LIBRARY_PATH: libraryPath },
  });
  return [...listing.matchAll(/(\S+) => not found/g)].map(([, library = '']) => {
    // Debian names a library's package after the library and the number at its end: libcurl.so.4 is in libcurl4.
    const debianPackage = library.replace(/\.so\.(\d+).*$/, '$1');
    return { what: `the shared library ${library} for ${program}`, mend: `apt-get install ${debianPackage}` };
  });
}

/** The full path of a program on the PATH of this environment, or null. */
export function findProgram(program: string, env: Environment = process.env): string | null {
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, program);
    if (folder && isProgram(path)) return path;
  }
  return null;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return existsSync(path) && statSync(path).isFile();
  } catch {
    return false;
  }
}
