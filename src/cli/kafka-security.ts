import { readFileSync } from 'node:fs';
import { carillonError } from '../core/errors.ts';
import type { Config } from '../runtime/config.ts';
import type { ClusterConfig } from './cluster-stores.ts';

type Security = Pick<ClusterConfig['kafka'], 'ssl' | 'sasl'>;
type Given = Pick<Config, 'kafkaTls' | 'kafkaCaFile' | 'kafkaSasl' | 'kafkaUsername' | 'kafkaPassword'>;

/**
 * TLS and SASL of the connections to Kafka; that a name and a password are there was checked when the settings were read.
 *
 * @throws CarillonError `setup-refused` when the file of authorities cannot be read
 */
export function kafkaSecurity({ kafkaTls, kafkaCaFile, kafkaSasl, kafkaUsername, kafkaPassword }: Given): Security {
  const sasl = { username: kafkaUsername ?? '', password: kafkaPassword ?? '' };
  return {
    ...(kafkaTls === 'on' && { ssl: kafkaCaFile === null ? {} : { ca: authorities(kafkaCaFile) } }),
    ...(kafkaSasl !== 'none' && { sasl: { mechanism: kafkaSasl, ...sasl } }),
  };
}

function authorities(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw carillonError('setup-refused', `kafkaCaFile ${file} cannot be read (${String(error)}); name a PEM file`);
  }
}
