/** The layers of src/DESIGN.md as a build failure: processes -> engine -> ports -> core; adapters -> ports, core. */
const rule = (name, comment, from, to) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { path: to },
});
module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    rule(
      'core-is-pure',
      'core knows nobody',
      '^src/core/',
      '^(src/(?!core/)|shard-manager|trigger-worker|test|bench|deploy)',
    ),
    rule(
      'ports-know-core',
      'a port is an interface over core words',
      '^src/ports/',
      '^(src/(?!core/|ports/)|shard-manager|trigger-worker)',
    ),
    rule(
      'engine-has-no-io',
      'the engine reaches the world through ports',
      '^src/engine/',
      '^(src/(?!core/|ports/|engine/)|shard-manager|trigger-worker)',
    ),
    rule(
      'adapters-know-ports',
      'an adapter implements ports',
      '^src/adapters/',
      '^(src/(?!core/|ports/|adapters/)|shard-manager|trigger-worker)',
    ),
    {
      name: 'no-adapter-to-adapter',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^src/adapters/', pathNot: '^src/adapters/($1|local)/' },
      comment: 'local/ is the bus of one process, whose log is in memory/ or sqlite/',
    },
    rule(
      'runtime-is-generic',
      'runtime serves every process',
      '^src/runtime/',
      '^(src/(?!core/|ports/|runtime/)|shard-manager|trigger-worker)',
    ),
    rule(
      'manager-not-worker',
      'the two processes share only what lies below them',
      '^shard-manager/',
      '^trigger-worker/',
    ),
    rule(
      'worker-not-manager',
      'the two processes share only what lies below them',
      '^trigger-worker/',
      '^shard-manager/',
    ),
    {
      name: 'processes-are-composed-at-the-top',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(embedded|cli)/' },
      to: { path: '^(shard-manager|trigger-worker)/' },
    },
    rule(
      'sdk-is-light',
      'business services import the SDK',
      '^src/sdk/',
      '^(src/(?!sdk/|core/)|shard-manager|trigger-worker)',
    ),
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts', '.js', '.json'] },
  },
};
