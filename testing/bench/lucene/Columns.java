import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;

import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.SortedDocValuesField;
import org.apache.lucene.document.SortedNumericDocValuesField;
import org.apache.lucene.document.SortedSetDocValuesField;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.SortedDocValues;
import org.apache.lucene.index.SortedNumericDocValues;
import org.apache.lucene.index.SortedSetDocValues;
import org.apache.lucene.search.DocIdSetIterator;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;

/**
 * Writes an index of one segment with a column of every kind, reads each column from front to back ROUNDS times, and prints
 * JSON: for each column its values, a sum over them, and the CPU seconds of the reading thread in the best round.
 *
 * usage: Columns DIRECTORY DOCUMENTS ROUNDS
 */
public class Columns {
    static final String[] NAMES = {"number", "time", "sparse", "numbers", "keyword", "keywords", "unique", "bytes"};

    static BytesRef text(String s) {
        return new BytesRef(s.getBytes(StandardCharsets.UTF_8));
    }

    public static void main(String[] args) throws IOException {
        Path path = Paths.get(args[0]);
        int documents = Integer.parseInt(args[1]);
        int rounds = Integer.parseInt(args[2]);
        try (Directory dir = FSDirectory.open(path)) {
            write(dir, documents);
            try (DirectoryReader reader = DirectoryReader.open(dir)) {
                LeafReader segment = reader.leaves().get(0).reader();
                ThreadMXBean threads = ManagementFactory.getThreadMXBean();
                StringBuilder out = new StringBuilder();
                for (String name : NAMES) {
                    long[] read = null;
                    double best = Double.MAX_VALUE;
                    for (int round = 0; round < rounds; round++) {
                        long begin = threads.getCurrentThreadCpuTime();
                        read = read(segment, name);
                        best = Math.min(best, (threads.getCurrentThreadCpuTime() - begin) / 1e9);
                    }
                    out.append(out.length() == 0 ? "" : ",");
                    out.append(String.format("{\"name\":\"%s\",\"values\":%d,\"sum\":%d,\"cpu_seconds\":%f}", name, read[0], read[1], best));
                }
                System.out.println("[" + out + "]");
            }
        }
    }

    static void write(Directory dir, int documents) throws IOException {
        IndexWriterConfig config = new IndexWriterConfig(null).setUseCompoundFile(false).setRAMBufferSizeMB(256);
        config.getMergePolicy().setNoCFSRatio(0);
        try (IndexWriter w = new IndexWriter(dir, config)) {
            for (int n = 0; n < documents; n++) {
                Document d = new Document();
                d.add(new NumericDocValuesField("number", n * 7919L % 1000003));
                d.add(new NumericDocValuesField("time", 1700000000000L + n * 1000L));
                if (n % 10 == 0) {
                    d.add(new NumericDocValuesField("sparse", n));
                }
                for (int k = 0; k < 1 + n % 3; k++) {
                    d.add(new SortedNumericDocValuesField("numbers", n % 1000 + k));
                }
                d.add(new SortedDocValuesField("keyword", text("keyword-" + n * 31L % 1000)));
                for (int k = 0; k < 1 + n % 3; k++) {
                    d.add(new SortedSetDocValuesField("keywords", text("tag-" + (n + k * 17) % 500)));
                }
                d.add(new SortedDocValuesField("unique", text(String.format("unique-%08d", n))));
                d.add(new BinaryDocValuesField("bytes", text("value " + n)));
                w.addDocument(d);
            }
            w.forceMerge(1);
        }
    }

    static long sum(BytesRef b) {
        return b.length * 31L + b.bytes[b.offset + b.length - 1];
    }

    /** Returns the number of values of a column, and a sum over them. */
    static long[] read(LeafReader segment, String name) throws IOException {
        long values = 0;
        long sum = 0;
        switch (name) {
            case "numbers":
                SortedNumericDocValues numbers = segment.getSortedNumericDocValues(name);
                while (numbers.nextDoc() != DocIdSetIterator.NO_MORE_DOCS) {
                    int n = numbers.docValueCount();
                    for (int i = 0; i < n; i++) {
                        sum += numbers.nextValue();
                    }
                    values += n;
                }
                break;
            case "keyword":
            case "unique":
                SortedDocValues keyword = segment.getSortedDocValues(name);
                while (keyword.nextDoc() != DocIdSetIterator.NO_MORE_DOCS) {
                    sum += sum(keyword.lookupOrd(keyword.ordValue()));
                    values++;
                }
                break;
            case "keywords":
                SortedSetDocValues keywords = segment.getSortedSetDocValues(name);
                while (keywords.nextDoc() != DocIdSetIterator.NO_MORE_DOCS) {
                    int n = keywords.docValueCount();
                    for (int i = 0; i < n; i++) {
                        sum += sum(keywords.lookupOrd(keywords.nextOrd()));
                    }
                    values += n;
                }
                break;
            case "bytes":
                BinaryDocValues bytes = segment.getBinaryDocValues(name);
                while (bytes.nextDoc() != DocIdSetIterator.NO_MORE_DOCS) {
                    sum += sum(bytes.binaryValue());
                    values++;
                }
                break;
            default:
                NumericDocValues number = segment.getNumericDocValues(name);
                while (number.nextDoc() != DocIdSetIterator.NO_MORE_DOCS) {
                    sum += number.longValue();
                    values++;
                }
        }
        return new long[] {values, sum};
    }
}
