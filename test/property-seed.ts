import fc from 'fast-check';

/**
 * Every property test draws from one seed, so that `npm test` says the same of the same code each time. Another one is tried
 * with `CARILLON_TEST_SEED=N`, which the short chaos run follows too.
 */
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env['CARILLON_TEST_SEED'] ?? 1) });
