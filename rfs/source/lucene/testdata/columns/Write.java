import java.io.File;
import java.util.Arrays;
import org.apache.lucene.codecs.*;
import org.apache.lucene.codecs.perfield.PerFieldDocValuesFormat;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.store.*;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.Version;

/** Writes columns whose values follow from the number of a document (lucene/columns_old_test.go). */
public final class Write {
  static void number(Document d, String name, long v) { d.add(new NumericDocValuesField(name, v)); }

  static byte[] bytes(int n, int length) {
    byte[] b = new byte[length];
    for (int i = 0; i < length; i++) b[i] = (byte) (n + i);
    return b;
  }

  public static void main(String[] args) throws Exception {
    Directory dir = new SimpleFSDirectory(new File(args[0]));
    Version[] versions = Version.class.isEnum() ? (Version[]) Version.class.getEnumConstants() : null;
    Version version = versions == null ? (Version) Version.class.getField("LATEST").get(null) : null;
    for (int i = 0; versions != null && i < versions.length; i++) {
      if (versions[i].name().matches("LUCENE_(4\\d|4_\\d)")) version = versions[i];
    }
    IndexWriterConfig config = new IndexWriterConfig(version, null);
    try { config.setUseCompoundFile(false); } catch (NoSuchMethodError before44) { }
    ((LogMergePolicy) config.setMergePolicy(new LogDocMergePolicy()).getMergePolicy()).setNoCFSRatio(0);
    config.setRAMBufferSizeMB(200);
    if (args.length > 2) {
      Codec codec = Codec.getDefault();
      DocValuesFormat format = DocValuesFormat.forName(args[2]);
      DocValuesFormat all = new PerFieldDocValuesFormat() {
        @Override public DocValuesFormat getDocValuesFormatForField(String field) { return format; }
      };
      config.setCodec(new FilterCodec(codec.getName(), codec) {
        @Override public DocValuesFormat docValuesFormat() { return all; }
      });
    }
    IndexWriter w = new IndexWriter(dir, config);
    Class<?> sortedNumbers = null;
    try { sortedNumbers = Class.forName("org.apache.lucene.document.SortedNumericDocValuesField"); } catch (ClassNotFoundException before49) { }
    int docs = Integer.parseInt(args[1]);
    for (int n = 0; n < docs; n++) {
      Document d = new Document();
      number(d, "delta", 300 + n / 8 % 1000);
      number(d, "table", new long[] {1, 1L << 40, -5, 77, 1234567, -9999999999L, 3}[n % 7]);
      if (n % 13 != 0) number(d, "day", 86400000L * (n / 10 % 3000) - 86400000L);
      if (n % 50 == 0) number(d, "wide", n % 100 == 0 ? Long.MIN_VALUE + n : Long.MAX_VALUE - n);
      if (n % 997 == 3) number(d, "rare", -n);
      number(d, "one", 7);
      d.add(new BinaryDocValuesField("fix", new BytesRef(bytes(n / 100, 2))));
      if (n % 3 == 0) d.add(new BinaryDocValuesField("bin", new BytesRef(bytes(n / 50, n % 7))));
      if (n % 11 != 0) d.add(new SortedDocValuesField("term", new BytesRef("term" + (n / 16 % 700) + (n % 5 == 0 ? "" : "ü"))));
      d.add(new SortedDocValuesField("code", new BytesRef("c" + n / 1000 % 10)));
      for (int k = 0; k < n % 4; k++) d.add(new SortedSetDocValuesField("tags", new BytesRef("tag" + (n / 100 + k * k) % 300)));
      if (n % 2 == 0) d.add(new SortedSetDocValuesField("single", new BytesRef("s" + n / 64 % 100)));
      if (sortedNumbers != null) {
        for (int k = 0; k < n % 3; k++) d.add(sorted(sortedNumbers, "many", n / 100 - k));
        d.add(sorted(sortedNumbers, "few", n / 1000));
      }
      w.addDocument(d);
    }
    w.forceMerge(1);
    w.close();
  }

  static IndexableField sorted(Class<?> c, String name, long v) throws Exception {
    return (IndexableField) c.getConstructor(String.class, long.class).newInstance(name, v);
  }
}
