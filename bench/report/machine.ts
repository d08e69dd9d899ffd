import { cpus, release, totalmem } from 'node:os';
import { KAFKA, MONGOD_WHEEL } from '../../deploy/local/pins.ts';

export interface Machine {
  cpu: string;
  cores: number;
  memory_gb: number;
  kernel: string;
  node: string;
  kafka: string;
  mongodb: string;
}

export function machine(): Machine {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    memory_gb: Math.round(totalmem() / 1e9),
    kernel: release(),
    node: process.version,
    kafka: KAFKA.version,
    mongodb: MONGOD_WHEEL.version,
  };
}
