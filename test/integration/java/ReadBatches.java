import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What Java's own reader finds in record batches, one line for each batch and record, for a test to compare:
 *
 *   bytes FILE                 batches one after another, as in a log; a batch that it holds for invalid ends the program with 1
 *   topic BROKER TOPIC N       what a read-committed consumer gets of N partitions, up to their ends
 */
public class ReadBatches {
    private static final HexFormat HEX = HexFormat.of();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.US_ASCII);

    public static void main(String[] args) throws Exception {
        if (args[0].equals("bytes")) {
            bytes(Path.of(args[1]));
        } else {
            topic(args[1], args[2], Integer.parseInt(args[3]));
        }
        OUT.flush();
    }

    private static void bytes(Path file) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file));
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            try {
                batch.ensureValid();
            } catch (CorruptRecordException error) {
                // It has no stack, over which the launcher of a source file stumbles.
                throw new IllegalStateException(error.getMessage());
            }
            OUT.printf("batch %d %d %d %d %d %b %s %s %d%n", batch.baseOffset(), batch.lastOffset(), batch.producerId(),
                batch.producerEpoch(), batch.baseSequence(), batch.isTransactional(), batch.compressionType(),
                batch.timestampType(), batch.maxTimestamp());
            for (Record record : batch) {
                record.ensureValid();
                OUT.printf("record %d %d %d %s %s %s%n", record.offset(), record.sequence(), record.timestamp(),
                    hex(record.key()), hex(record.value()), headers(record.headers()));
            }
        }
    }

    private static void topic(String broker, String topic, int partitions) {
        Map<String, Object> settings = Map.of("bootstrap.servers", broker, "isolation.level", "read_committed",
            "enable.auto.commit", "false", "auto.offset.reset", "earliest", "check.crcs", "true");
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition += 1) all.add(new TopicPartition(topic, partition));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(all);
            var ends = consumer.endOffsets(all);
            while (all.stream().anyMatch((one) -> consumer.position(one) < ends.get(one))) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    OUT.printf("record %d %d %d %s %s %s%n", record.partition(), record.offset(), record.timestamp(),
                        hex(record.key()), hex(record.value()), headers(record.headers().toArray()));
                }
            }
        }
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) return hex((byte[]) null);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return hex(bytes);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "=" + HEX.formatHex(bytes);
    }

    private static String headers(Header[] headers) {
        StringBuilder all = new StringBuilder();
        for (Header header : headers) {
            if (!all.isEmpty()) all.append(',');
            all.append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append('=');
            all.append(HEX.formatHex(header.value()));
        }
        return all.isEmpty() ? "none" : all.toString();
    }
}
