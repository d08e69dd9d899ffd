import { defineConfig } from 'vitest/config';

/** Servers are shared by all test files of a run, so contract and integration get them from one global set-up. */
const onServers = { globalSetup: ['test/servers.ts'], testTimeout: 60_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 2,
    setupFiles: ['test/property-seed.ts'],
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 30_000 } },
      {
        extends: true,
        test: { name: 'simulation', include: ['test/simulation/**/*.test.ts'], testTimeout: 300_000 },
      },
      { extends: true, test: { name: 'contract', include: ['test/contract/**/*.test.ts'], ...onServers } },
      { extends: true, test: { name: 'integration', include: ['test/integration/**/*.test.ts'], ...onServers } },
    ],
  },
});
