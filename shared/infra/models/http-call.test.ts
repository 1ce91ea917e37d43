import t from 'tap';
import { WIRE_OF } from '#infra/models/open-models.ts';
import { type HttpProvider, streamOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { mulberry32 } from '#scripts/sandbox/random.ts';
import { HTTP_PROVIDERS } from '#testing/models/asked-models.ts';
import { readEvents } from './http-call.ts';

/** Texts whose pieces contain escapes, characters of several bytes and pairs of units. */
const TEXTS = [
  JSON.stringify({ subject: 'toán', confidence: 0.5 }),
  JSON.stringify({ subject: 'Tiếng\u2028Việt\u2029 🙂 \u0085 "trích" \\theta\n{', confidence: 1 }),
];
/** One provider of each protocol. */
const PROTOCOLS = HTTP_PROVIDERS.filter((provider, at) => {
  return HTTP_PROVIDERS.findIndex((other) => WIRE_OF[other] === WIRE_OF[provider]) === at;
});
const never = new AbortController().signal;

const seed = Date.now() & 0x7fffffff;

/** Returns the text of a stream's answer; null if it is not whole. */
async function answerOf(provider: HttpProvider, chunks: AsyncIterable<Uint8Array>): Promise<string | null> {
  const wire = WIRE_OF[provider];
  const body = await readEvents(chunks, wire.fold(), never);
  return body === null ? null : (wire.read(body)?.text ?? null);
}

/** Divides bytes into chunks of the next of these lengths. */
async function* chunksOf(bytes: Uint8Array, nextLength: () => number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; ) {
    const length = nextLength();
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

/** Lengths of chunks. The parser treats the end of a chunk inside a line otherwise than the end of the line. */
function chunkLengths(random: () => number): (() => number)[] {
  return [() => Number.POSITIVE_INFINITY, () => 1 + Math.floor(random() * 60)];
}

/** Requires that each damaged stream has the whole answer or none, and returns how many of them have it. */
async function wholeOrNone(provider: HttpProvider, text: string, damaged: Iterable<Uint8Array>) {
  const counts = { streams: 0, whole: 0, short: 0 };
  const lengths = chunkLengths(mulberry32(seed));
  for (const bytes of damaged) {
    for (const nextLength of lengths) {
      const answer = await answerOf(provider, chunksOf(bytes, nextLength));
      counts.streams += 1;
      if (answer === text) counts.whole += 1;
      else if (answer !== null) counts.short += 1;
    }
  }
  return counts;
}

function* cutAtEachByte(stream: string): Generator<Uint8Array> {
  const bytes = Buffer.from(stream);
  for (let length = 0; length <= bytes.length; length += 1) yield bytes.subarray(0, length);
}

/**
 * Damages each line at each of its characters: cuts off what follows or what precedes it, or overwrites it with a byte that is no character.
 * A line that is missing as a whole leaves no trace in these protocols.
 */
function* damageEachLine(stream: string): Generator<Uint8Array> {
  const lines = stream.split('\n');
  for (const [at, line] of lines.entries()) {
    for (let length = 1; length < line.length; length += 1) {
      const [before, after] = [line.slice(0, length), line.slice(length)];
      yield Buffer.from(lines.with(at, before).join('\n'));
      yield Buffer.from(lines.with(at, after).join('\n'));
      const left = Buffer.from([...lines.slice(0, at), before].join('\n'));
      const right = Buffer.from([after.slice(1), ...lines.slice(at + 1)].join('\n'));
      yield Buffer.concat([left, Buffer.of(0xff), right]);
    }
  }
}

/** Deletes each line end, so that two lines are one. */
function* joinLines(stream: string): Generator<Uint8Array> {
  for (let at = stream.indexOf('\n'); at !== -1; at = stream.indexOf('\n', at + 1)) {
    yield Buffer.from(stream.slice(0, at) + stream.slice(at + 1));
  }
}

for (const provider of PROTOCOLS) {
  t.test(`${provider}: a damaged stream has the whole answer or none, in any chunks (seed ${seed})`, async (t) => {
    for (const text of TEXTS) {
      for (const without of text === TEXTS[0] ? ([undefined, 'done', 'usage', 'end'] as const) : [undefined]) {
        const stream = streamOf(provider, text, without === undefined ? {} : { without });
        const cut = await wholeOrNone(provider, text, cutAtEachByte(stream));
        const lines = await wholeOrNone(provider, text, damageEachLine(stream));
        const joined = await wholeOrNone(provider, text, joinLines(stream));
        t.comment(`${without ?? 'all'}: ${JSON.stringify({ cut, lines, joined })}`);
        t.equal(cut.short + lines.short + joined.short, 0, 'no short answer is accepted');
        t.equal(cut.whole > 0, without !== 'end', 'the whole stream has the answer');
        t.ok(cut.streams > 600 && lines.streams > 1_500 && joined.streams > 20, 'many streams');
      }
    }
  });
}

const LINE_ENDS: readonly [string, string][] = [
  ['LF', '\n'],
  ['CR LF', '\r\n'],
  ['CR', '\r'],
];
for (const [name, lineEnd] of LINE_ENDS) {
  t.test(
    `a stream with ${name} has its whole answer in any chunks, and without its last line ends (seed ${seed})`,
    async (t) => {
      const lengths = [...chunkLengths(mulberry32(seed)), () => 1];
      for (const provider of PROTOCOLS) {
        for (const text of TEXTS) {
          const stream = streamOf(provider, text).replaceAll('\n', lineEnd);
          for (const missing of [0, 1, 2]) {
            const bytes = Buffer.from(stream.slice(0, stream.length - missing * lineEnd.length));
            const answers = await Promise.all(
              lengths.map((nextLength) => answerOf(provider, chunksOf(bytes, nextLength))),
            );
            t.strictSame(answers, [text, text, text], `${provider} without ${missing} line ends`);
          }
        }
      }
    },
  );
}

t.test('after the reason why it ended, an answer is whole, however the stream breaks off', async (t) => {
  for (const provider of PROTOCOLS) {
    const [text = ''] = TEXTS;
    const whole = Buffer.from(streamOf(provider, text));
    const withoutMark = Buffer.from(streamOf(provider, text, { without: 'done' }));
    for (let length = withoutMark.length; length <= whole.length; length += 1) {
      const answer = await answerOf(
        provider,
        chunksOf(whole.subarray(0, length), () => 7),
      );
      t.equal(answer, text, `${provider}: ${length} of ${whole.length} bytes`);
    }
  }
});

t.test('lines after the end mark change nothing, in one chunk or in many', async (t) => {
  for (const provider of PROTOCOLS) {
    const [text = ''] = TEXTS;
    const bytes = Buffer.from(`${streamOf(provider, text)}: {"x":1}\n\n`);
    for (const nextLength of [() => bytes.length, () => 1]) {
      t.equal(await answerOf(provider, chunksOf(bytes, nextLength)), text, provider);
    }
  }
});
