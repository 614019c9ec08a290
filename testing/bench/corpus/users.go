package corpus

import (
	"fmt"
	"math/rand/v2"
)

// purchase appends an order of a shop: hardly any text, but ids, hashes, amounts and coordinates that do not repeat.
func (c *Corpus) purchase(dst []byte, i int) []byte {
	dst = append(dst, `{"order":"`...)
	dst = c.uuid(dst)
	dst = fmt.Appendf(dst, `","number":%d,"customer":{"id":%d,"name":"%s %s","email":"%s%d@example.com","phone":"+%d","address":{"street":"%s %d","city":%q,"zip":"%05d","lat":%.6f,"lon":%.6f}},"placed_at":"`,
		1_000_000+i, c.r.IntN(5_000_000), c.any(), c.any(), c.any(), c.r.IntN(1000), 10_000_000_000+c.r.Int64N(90_000_000_000),
		c.any(), 1+c.r.IntN(200), c.any(), c.r.IntN(100000), c.r.Float64()*160-80, c.r.Float64()*340-170)
	dst = c.stamp(dst, i, 977)
	dst = append(dst, `","payment":{"token":"`...)
	dst = c.token(dst, 86)
	dst = fmt.Appendf(dst, `","last4":"%04d"},"items":[`, c.r.IntN(10000))
	for j := range 1 + c.r.IntN(6) {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"sku":"%c%c-%07d","ean":%d,"qty":%d,"price":`, 'A'+c.r.IntN(26), 'A'+c.r.IntN(26), c.r.IntN(1e7),
			4_000_000_000_000+c.r.Int64N(100_000_000_000), 1+c.r.IntN(9))
		dst = c.money(dst, 500)
		dst = append(dst, `,"serial":"`...)
		dst = append(c.token(dst, 32), `"}`...)
	}
	dst = append(dst, `],"total":`...)
	dst = c.money(dst, 3000)
	dst = fmt.Appendf(dst, `,"currency":%q,"status":%q,"checksum":"`, c.oneOf("EUR", "USD", "GBP"), c.oneOf("paid", "open", "shipped"))
	dst = c.hexID(dst, 64)
	return append(dst, `"}`...)
}

// any returns a word of the vocabulary, all equally often.
func (c *Corpus) any() string { return c.words[c.r.IntN(vocabulary)] }

// uuid appends a random UUID.
func (c *Corpus) uuid(dst []byte) []byte {
	for j, n := range []int{8, 4, 4, 4, 12} {
		if j > 0 {
			dst = append(dst, '-')
		}
		dst = c.hexID(dst, n)
	}
	return dst
}

// token appends n random characters of base64.
func (c *Corpus) token(dst []byte, n int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for range n {
		dst = append(dst, letters[c.r.IntN(64)])
	}
	return dst
}

// language is a vocabulary in one script.
type language struct {
	code    string
	words   []string
	phrases []string
	zipf    *rand.Zipf
}

// scripts are the letters of the languages: alternating consonants and vowels, or signs.
var scripts = []struct{ code, odd, even string }{
	{"en", "bcdfghlmnprstvw", "aeiou"},
	{"de", "bdfghklmnprstwzß", "aeiouäöü"},
	{"fr", "bcdfgjlmnpqrstv", "aeiouéèê"},
	{"ru", "бвгджзклмнпрстхцчш", "аеиоуыя"},
	{"el", "βγδζθκλμνπρστφχ", "αεηιουω"},
	{"ar", "بتثجحدرسشصطعفقكلمن", "اوي"},
	{"hi", "कखगचजटडतदनपबमरलवसह", "ािीुेो"},
	{"ja", "日本語文字記事東京大学新聞社会経済政治国際", "のにはをがでとも"},
}

const (
	ownWords   = 3000 // of a language
	ownPhrases = 400  // of three to six words each
)

// languages creates the vocabularies.
func (c *Corpus) languages() {
	for _, s := range scripts {
		l := language{code: s.code, zipf: rand.NewZipf(c.r, 1.1, 10, ownWords-1)}
		odd, even := []rune(s.odd), []rune(s.even)
		for range ownWords {
			var word []rune
			for j := range 2 + c.r.IntN(8) {
				letters := odd
				if j%2 == 1 {
					letters = even
				}
				word = append(word, letters[c.r.IntN(len(letters))])
			}
			l.words = append(l.words, string(word))
		}
		for range ownPhrases {
			phrase := l.words[l.zipf.Uint64()]
			for range 2 + c.r.IntN(4) {
				phrase += " " + l.words[l.zipf.Uint64()]
			}
			l.phrases = append(l.phrases, phrase)
		}
		c.tongues = append(c.tongues, l)
	}
}

// article appends a text of about 3 KB in one of eight languages, with its markup.
func (c *Corpus) article(dst []byte, i int) []byte {
	l := &c.tongues[(i/50)%len(c.tongues)] // importers write documents in one language for a while
	dst = fmt.Appendf(dst, `{"id":%d,"language":%q,"published":"`, 70_000_000+i, l.code)
	dst = c.stamp(dst, i, 60000)
	dst = append(dst, `","title":"`...)
	dst = c.sentence(dst, l, 1)
	dst = fmt.Appendf(dst, `","author":{"id":%d,"name":"%s %s"},"body":"`, c.r.IntN(2000), l.words[c.r.IntN(ownWords)], l.words[c.r.IntN(ownWords)])
	for end := len(dst) + 1000 + c.r.IntN(3000); len(dst) < end; {
		dst = append(dst, `<p>`...)
		for range 1 + c.r.IntN(4) {
			dst = append(c.sentence(dst, l, 1+c.r.IntN(5)), ". "...)
		}
		dst = append(dst, `</p>\n`...)
	}
	return fmt.Appendf(dst, `","tags":[%q,%q,%q],"views":%d,"license":"CC-BY-SA-4.0"}`,
		l.words[l.zipf.Uint64()], l.words[l.zipf.Uint64()], l.words[l.zipf.Uint64()], c.r.IntN(1e6))
}

// sentence appends n groups of words: phrases, and single words in between.
func (c *Corpus) sentence(dst []byte, l *language, n int) []byte {
	for j := range n {
		if j > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, l.phrases[c.r.IntN(ownPhrases)]...)
		for range c.r.IntN(4) {
			dst = append(append(dst, ' '), l.words[l.zipf.Uint64()]...)
		}
	}
	return dst
}

// event appends a record of a container's log, which consists mostly of its origin, the same for all records of the container.
func (c *Corpus) event(dst []byte, i int) []byte {
	pod := c.r.IntN(60)
	service := c.words[pod%20]
	dst = append(dst, `{"@timestamp":"`...)
	dst = c.stamp(dst, i, 40)
	dst = fmt.Appendf(dst, `","stream":"stdout","level":%q,"message":"%s %s for user %d in %d ms","trace_id":"`,
		c.oneOf("INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "DEBUG", "WARN"), c.oneOf("handled request", "wrote entry", "read page", "retried call"), c.word(),
		c.r.IntN(100000), c.r.IntN(400))
	dst = c.hexID(dst, 32)
	dst = append(dst, `","span_id":"`...)
	dst = c.hexID(dst, 16)
	dst = fmt.Appendf(dst, `","client":"10.%d.%d.%d","kubernetes":{"namespace":"production","pod":{"name":"%s-7d9c8b6f5-x%02dq","uid":"8f14e45f-ceea-467f-a0e6-%012d"},`,
		c.r.IntN(256), c.r.IntN(256), c.r.IntN(256), service, pod, pod*7919)
	dst = fmt.Appendf(dst, `"container":{"name":%q,"image":"registry.example.com/shop/%s:v2.%d.0","id":"containerd://b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"},"node":{"name":"ip-10-0-%d-%d.eu-central-1.compute.internal"},"labels":{"app":%q,"app_kubernetes_io/managed-by":"Helm","app_kubernetes_io/part-of":"shop","pod-template-hash":"7d9c8b6f5","tier":"backend","team":"checkout"}},`,
		service, service, pod%20, pod%16, pod%12, service)
	return fmt.Appendf(dst, `"agent":{"type":"filebeat","version":"7.17.9","ephemeral_id":"3b0a7c1e-5d2f-4c6b-9a8e-1f2d3c4b5a69","hostname":"filebeat-%02d"},"ecs":{"version":"1.12.0"},"host":{"architecture":"x86_64","os":{"platform":"ubuntu","version":"20.04.6 LTS (Focal Fossa)","kernel":"5.15.0-1051-aws"}},"cloud":{"provider":"aws","region":"eu-central-1","availability_zone":"eu-central-1%c"},"offset":%d}`,
		pod%16, 'a'+pod%3, 100*i+c.r.IntN(100))
}
