import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

import org.apache.lucene.codecs.StoredFieldsReader;
import org.apache.lucene.index.CodecReader;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.FieldInfo;
import org.apache.lucene.index.FilterLeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.SegmentCommitInfo;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.index.SoftDeletesDirectoryReaderWrapper;
import org.apache.lucene.index.StoredFieldVisitor;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.IOContext;
import org.apache.lucene.util.Bits;

/**
 * Reads the stored fields of shards from front to back with Lucene's own merge instance, the fastest
 * way it has. After WARM_UP rounds each line of the standard input asks for one more, of which a line of JSON is
 * printed: what was read, and the CPU seconds of the process. The live documents are read, as a migration reads
 * them: _id, _routing and _source of each.
 *
 * usage: StoredFields WARM_UP SHARD_DIRECTORY...
 */
public class StoredFields {
    /** Takes the fields that a migration needs and counts the bytes of the sources. */
    static final class Sources extends StoredFieldVisitor {
        long documents;
        long bytes;

        @Override
        public Status needsField(FieldInfo field) {
            switch (field.name) {
                case "_source":
                case "_id":
                case "_routing":
                    return Status.YES;
                default:
                    return Status.NO;
            }
        }

        @Override
        public void binaryField(FieldInfo field, byte[] value) {
            if (field.name.equals("_source")) {
                documents++;
                bytes += value.length;
            }
        }
    }

    public static void main(String[] args) throws Throwable {
        startLogging();
        int warmUp = Integer.parseInt(args[0]);
        List<DirectoryReader> readers = new ArrayList<>();
        long shardBytes = 0;
        long storedBytes = 0;
        for (int i = 1; i < args.length; i++) {
            Path path = Paths.get(args[i]);
            Directory dir = FSDirectory.open(path);
            for (String name : dir.listAll()) {
                shardBytes += dir.fileLength(name);
            }
            storedBytes += storedBytes(dir);
            readers.add(new SoftDeletesDirectoryReaderWrapper(DirectoryReader.open(dir), "__soft_deletes"));
        }
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (int round = 0; round < warmUp || orders.readLine() != null; round++) {
            Sources read = new Sources();
            long begin = process.getProcessCpuTime();
            for (DirectoryReader reader : readers) {
                for (LeafReaderContext leaf : reader.leaves()) {
                    readSegment(leaf, read);
                }
            }
            double cpu = (process.getProcessCpuTime() - begin) / 1e9;
            if (round >= warmUp) {
                System.out.printf(Locale.ROOT, "{\"documents\":%d,\"source_bytes\":%d,\"shard_bytes\":%d,\"stored_field_bytes\":%d,\"cpu_seconds\":%f}%n",
                    read.documents, read.bytes, shardBytes, storedBytes, cpu);
            }
        }
    }

    /** Gives the library of zstd the logger that Elasticsearch 8.14 and later set when a node starts. */
    static void startLogging() throws ReflectiveOperationException {
        Class<?> factory;
        try {
            factory = Class.forName("org.elasticsearch.logging.internal.spi.LoggerFactory");
        } catch (ClassNotFoundException before8) {
            return;
        }
        Object own = Class.forName("org.elasticsearch.common.logging.internal.LoggerFactoryImpl").getConstructor().newInstance();
        factory.getMethod("setInstance", factory).invoke(null, own);
    }

    /** StoredFieldsReader.document, which was called visitDocument before Lucene 9. */
    static final MethodHandle DOCUMENT = document();

    static MethodHandle document() {
        MethodType type = MethodType.methodType(void.class, int.class, StoredFieldVisitor.class);
        try {
            return MethodHandles.lookup().findVirtual(StoredFieldsReader.class, "document", type);
        } catch (ReflectiveOperationException before9) {
            try {
                return MethodHandles.lookup().findVirtual(StoredFieldsReader.class, "visitDocument", type);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }
    }

    static void readSegment(LeafReaderContext leaf, Sources into) throws Throwable {
        CodecReader segment = (CodecReader) FilterLeafReader.unwrap(leaf.reader());
        Bits live = leaf.reader().getLiveDocs();
        StoredFieldsReader fields = segment.getFieldsReader().getMergeInstance();
        int maxDoc = segment.maxDoc();
        for (int doc = 0; doc < maxDoc; doc++) {
            if (live == null || live.get(doc)) {
                DOCUMENT.invokeExact(fields, doc, (StoredFieldVisitor) into);
            }
        }
    }

    /** Sums up the files that hold stored fields, inside compound files as well. */
    static long storedBytes(Directory dir) throws IOException {
        long sum = 0;
        for (SegmentCommitInfo segment : SegmentInfos.readLatestCommit(dir)) {
            Directory files = dir;
            if (segment.info.getUseCompoundFile()) {
                files = segment.info.getCodec().compoundFormat().getCompoundReader(dir, segment.info, IOContext.READ);
            }
            for (String name : files.listAll()) {
                boolean own = name.startsWith(segment.info.name + ".") || name.startsWith(segment.info.name + "_");
                if (own && (name.endsWith(".fdt") || name.endsWith(".fdx") || name.endsWith(".fdm"))) {
                    sum += files.fileLength(name);
                }
            }
            if (files != dir) {
                files.close();
            }
        }
        return sum;
    }
}
