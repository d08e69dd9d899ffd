import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pomOf, verify, verifyExactly } from '../../../deploy/local/download.ts';
import { KAFKA, KAFKA_JARS, MONGOD_WHEEL, OPENSSL_WHEEL, REDIS_PACKAGES } from '../../../deploy/local/pins.ts';

const ROOT = join(import.meta.dirname, '../../../.servers');
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

let folder: string;
beforeEach(() => {
  mkdirSync(ROOT, { recursive: true });
  folder = mkdtempSync(join(ROOT, 'test-files-'));
  writeFileSync(join(folder, 'one.jar'), 'one');
  writeFileSync(join(folder, 'two.jar'), 'two');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('a fetched file', () => {
  it('is taken when its checksum is the pinned one', async () => {
    await verify(join(folder, 'one.jar'), sha256('one'));
  });

  it('is refused when a single byte differs, with both checksums', async () => {
    await expect(verify(join(folder, 'one.jar'), sha256('onf'))).rejects.toThrow(
      `checksum of one.jar is ${sha256('one')}, not ${sha256('onf')}: refused`,
    );
  });
});

describe('a fetched set of files', () => {
  const pinned = { 'one.jar': sha256('one'), 'two.jar': sha256('two') };

  it('is taken when it is exactly the pinned one', async () => {
    await verifyExactly(folder, pinned);
  });

  it('is refused with a file too many, a file too few, or another file of the same name', async () => {
    await expect(verifyExactly(folder, { 'one.jar': sha256('one') })).rejects.toThrow('unknown [two.jar]');
    await expect(verifyExactly(folder, { ...pinned, 'three.jar': '' })).rejects.toThrow('lacking [three.jar]');
    await expect(verifyExactly(folder, { ...pinned, 'two.jar': sha256('2') })).rejects.toThrow('checksum of two.jar');
  });
});

describe('the pins', () => {
  it('are whole SHA-256 checksums', () => {
    const all = [
      MONGOD_WHEEL.sha256,
      OPENSSL_WHEEL.sha256,
      ...Object.values(REDIS_PACKAGES.sha256),
      ...Object.values(KAFKA_JARS),
    ];
    for (const checksum of all) expect(checksum).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(all).size).toBe(all.length);
  });

  it('name a jar for each artifact that is asked for', () => {
    for (const artifact of KAFKA.artifacts) {
      const [, id, version] = artifact.split(':');
      expect(Object.keys(KAFKA_JARS)).toContain(`${id}-${version}.jar`);
      expect(pomOf(KAFKA.artifacts)).toContain(`<artifactId>${id}</artifactId><version>${version}</version>`);
    }
  });
});
