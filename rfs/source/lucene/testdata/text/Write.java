import java.io.File;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.*;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.store.*;
import org.apache.lucene.util.BytesRef;

/** Writes an index whose terms and positions follow from the number of a document (lucene/postings_test.go). */
public final class Write {
  static final class Tokens extends TokenStream {
    private final CharTermAttribute term = addAttribute(CharTermAttribute.class);
    private final PositionIncrementAttribute step = addAttribute(PositionIncrementAttribute.class);
    private final OffsetAttribute offset = addAttribute(OffsetAttribute.class);
    private final PayloadAttribute payload = addAttribute(PayloadAttribute.class);
    private final boolean payloads;
    private final List<String> words;
    private int i;
    Tokens(List<String> words, boolean payloads) { this.words = words; this.payloads = payloads; }
    @Override public boolean incrementToken() {
      if (i == words.size()) return false;
      clearAttributes();
      String w = words.get(i);
      int gap = 1;
      if (w.startsWith("+")) { int end = w.indexOf(' '); gap = Integer.parseInt(w.substring(1, end)); w = w.substring(end + 1); }
      term.append(w);
      step.setPositionIncrement(gap);
      offset.setOffset(i * 3, i * 3 + w.length());
      if (payloads) payload.setPayload(new BytesRef(w.substring(0, i % 3 % (w.length() + 1))));
      i++;
      return true;
    }
    @Override public void reset() { i = 0; }
  }

  static List<String> words(int n) {
    List<String> out = new ArrayList<>();
    for (int k = 0; k <= n % 3; k++) out.add("common");
    if (n % 2 == 0) out.add("even");
    out.add("w" + n % 97);
    out.add("+" + (1 + n % 5) + " u" + (long) n * 7919 % 9001);
    if (n % 11 == 0) { out.add("+101 second"); out.add("Größe"); out.add("+0 size"); }
    if (n % 1500 == 7) for (int k = 0; k < 300; k++) out.add("long");
    if (n % 3000 == 8) out.add("+100000 far");
    return out;
  }

  static FieldType type(String options) throws Exception {
    FieldType t = new FieldType();
    for (Method m : FieldType.class.getMethods()) {
      if (m.getName().equals("setIndexed")) m.invoke(t, true);
      if (m.getName().equals("setIndexOptions")) {
        for (Object o : m.getParameterTypes()[0].getEnumConstants()) if (o.toString().equals(options)) m.invoke(t, o);
      }
    }
    t.setTokenized(true);
    t.freeze();
    return t;
  }

  public static void main(String[] args) throws Exception {
    Directory dir;
    try {
      dir = (Directory) FSDirectory.class.getMethod("open", File.class).invoke(null, new File(args[0]));
    } catch (NoSuchMethodException e) {
      dir = (Directory) FSDirectory.class.getMethod("open", java.nio.file.Path.class).invoke(null, new File(args[0]).toPath());
    }
    IndexWriterConfig config = null;
    for (java.lang.reflect.Constructor<?> c : IndexWriterConfig.class.getConstructors()) {
      if (c.getParameterTypes().length == 2) {
        Object[] all = c.getParameterTypes()[0].getEnumConstants();
        Object latest = null;
        for (int i = 0; all != null && i < all.length; i++) if (all[i].toString().matches("LUCENE_(4\\d|4_\\d)")) latest = all[i];
        if (latest == null) latest = c.getParameterTypes()[0].getField("LATEST").get(null);
        config = (IndexWriterConfig) c.newInstance(latest, null);
      } else if (c.getParameterTypes().length == 1 && config == null) {
        config = (IndexWriterConfig) c.newInstance(new Object[] {null});
      }
    }
    IndexWriter w = new IndexWriter(dir, config);
    FieldType positions = type("DOCS_AND_FREQS_AND_POSITIONS"), offsets = type("DOCS_AND_FREQS_AND_POSITIONS_AND_OFFSETS");
    int docs = Integer.parseInt(args[1]);
    for (int n = 0; n < docs; n++) {
      Document d = new Document();
      d.add(new Field("body", new Tokens(words(n), false), positions));
      if (n % 4 == 0) d.add(new Field("offsets", new Tokens(words(n), false), offsets));
      if (n % 8 == 1) d.add(new Field("payloads", new Tokens(words(n), true), positions));
      d.add(new StoredField("n", n));
      w.addDocument(d);
    }
    w.forceMerge(1);
    w.close();
  }
}
