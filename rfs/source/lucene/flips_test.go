package lucene

import (
	"errors"
	"hash/adler32"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// summedDir is a directory whose manifest states the Adler-32 of each file, as snapshots do of files of Lucene before 4.8.
type summedDir struct {
	mapDir
	sums map[string]uint32
}

func (d summedDir) Open(name string) (File, error) {
	f, err := d.mapDir.Open(name)
	if err != nil {
		return nil, err
	}
	return summedFile{f, d.sums[name]}, nil
}

type summedFile struct {
	File
	sum uint32
}

func (f summedFile) Adler() (uint32, bool) { return f.sum, true }

// columnFiles calls yield once for each pair of files .dvm and .dvd of a segment, with a field whose column lies there.
func columnFiles(t *testing.T, s *Segment, yield func(fi *fieldInfos, f *fieldInfo, meta, data *source)) {
	t.Helper()
	fi := fieldsOf(t, s)
	seen := map[string]bool{}
	for _, f := range fi.fields {
		if f.docValues == 0 || f.dvGen >= 0 || !columns.Known(f.attrs[attrFormat]) || seen[f.columnFile()] {
			continue
		}
		seen[f.columnFile()] = true
		metaExt, dataExt := columns.Files(f.attrs[attrFormat])
		meta, err := s.files.core("_" + f.columnFile() + metaExt)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.files.core("_" + f.columnFile() + dataExt)
		if err != nil {
			t.Fatal(err)
		}
		yield(fi, f, meta, data)
	}
}

// flipBytes flips some bytes of a file, or every one with RFSD_CORRUPT=full: each must be an error that names blob, file and offset.
// It returns how many.
func flipBytes(t *testing.T, src *source, file memFile, read func() error) (flips int) {
	t.Helper()
	step := max(1, src.size/150)
	if os.Getenv("RFSD_CORRUPT") == "full" {
		step = 1
	}
	for off := int64(0); off < src.size; off += step {
		if step > 1 && src.size-off <= step {
			off, step = src.size-13, 1 // the footer
		}
		file.data[src.base+off] ^= 1 << (off % 8)
		err := read()
		file.data[src.base+off] ^= 1 << (off % 8)
		flips++
		var damage *fault.Damage
		if !errors.As(err, &damage) || damage.Blob != "__"+file.name || damage.File == "" || damage.Offset < 0 {
			t.Fatalf("byte %d of %d of %s: %v", off, src.size, src.name, err)
		}
	}
	return flips
}

// TestEveryFlippedByteOfColumnsIsAnError flips bytes of the files of columns of every generation: each must be an error that
// names blob, file and offset before any value is read. RFSD_CORRUPT=full flips every byte, else some of each file are.
func TestEveryFlippedByteOfColumnsIsAnError(t *testing.T) {
	shards := testShards(t)
	for name, dir := range map[string]mapDir{
		"Lucene45": zipDir(t, filepath.Join("testdata", "columns", "4.5.1-300.zip")), "Lucene45, checked": zipDir(t, filepath.Join("testdata", "columns", "4.8.1-300.zip")),
		"Lucene45, in a compound file": zipDir(t, filepath.Join("testdata", "lucene4", "461.cfs.zip")),
		"Disk":                         zipDir(t, filepath.Join("testdata", "columns", "4.8.1-disk-300.zip")),
		"Lucene49":                     zipDir(t, filepath.Join("testdata", "columns", "4.9.1-300.zip")),
		"Lucene410":                    shards["lucene-4.10.4-0"], "Lucene50": shards["lucene-5.3.2-0"], "Lucene54": shards["lucene-5.5.4-0"],
		"Lucene70": shards["6.8.23-updates-deletes-0"], "Lucene80": shards["7.17.29-updates-deletes-0"], "Lucene90": shards["os3.8.0-codec-zstd-0"],
		"ES87TSDB": shards["8.18.8-timeseries-0"], "ES819TSDB": shards["8.19.21-synthetic-0"], "ES8193TSDB": shards["9.5.3-logs-0"], "ES95TSDB": shards["9.5.3-timeseries-stored-0"],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sums := map[string]uint32{}
			for file, b := range dir {
				sums[file] = adler32.Checksum(b)
			}
			c, err := Open(t.Context(), summedDir{dir, sums}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, flips := c.Segments[0], 0
			columnFiles(t, s, func(fi *fieldInfos, f *fieldInfo, meta, data *source) {
				read := func() error {
					metas := columnMetas{seg: s, fields: fi}
					c, err := metas.open(t.Context(), f)
					if err == nil {
						err = c.verify(t.Context())
					}
					return err
				}
				if err := read(); err != nil {
					t.Fatal(err)
				}
				for _, src := range []*source{meta, data} {
					flips += flipBytes(t, src, src.file.(summedFile).File.(memFile), read)
				}
			})
			if flips < 300 {
				t.Errorf("only %d bytes were flipped", flips)
			}
		})
	}
}
