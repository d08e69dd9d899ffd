import zlib from 'node:zlib';
import type { CompressionCodecs as Codecs, CompressionTypes as Types } from 'kafkajs';

/**
 * kafkajs knows the codecs zstd and lz4 by name, and throws at the first batch that has one. Those that the service has not registered
 * itself are registered here, for topics whose `compression.type` asks for them: zstd by Node (22.15 or newer), lz4 by the library
 * that Carillon writes it with, which is loaded with the first such batch.
 */
export function registerCodecs({
  CompressionTypes,
  CompressionCodecs,
}: {
  CompressionTypes: typeof Types;
  CompressionCodecs: typeof Codecs;
}): void {
  if (!isRegistered(CompressionCodecs[CompressionTypes.ZSTD]) && typeof zlib.zstdDecompressSync === 'function') {
    CompressionCodecs[CompressionTypes.ZSTD] = () => ({
      compress: async ({ buffer }: { buffer: Buffer }) => zlib.zstdCompressSync(buffer),
      decompress: async (buffer: Buffer) => zlib.zstdDecompressSync(buffer),
    });
  }
  if (!isRegistered(CompressionCodecs[CompressionTypes.LZ4])) {
    CompressionCodecs[CompressionTypes.LZ4] = () => ({
      compress: async ({ buffer }: { buffer: Buffer }) => (await lz4()).compressSync(buffer),
      decompress: async (buffer: Buffer) => (await lz4()).decompressSync(buffer),
    });
  }
}

function isRegistered(codec: () => unknown): boolean {
  try {
    codec();
    return true;
  } catch {
    return false;
  }
}

async function lz4() {
  const { compressionsAlgorithms } = await import('@platformatic/kafka');
  return compressionsAlgorithms.lz4;
}
