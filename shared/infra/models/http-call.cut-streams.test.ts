import t from 'tap';
import { WIRE_OF } from '#infra/models/open-models.ts';
import { HTTP_PROVIDERS, type HttpProvider, streamOf } from '#testing/models/provider-replies.ts';
import { readEvents } from './http-call.ts';

/** Texts whose pieces contain escapes, characters of several bytes and pairs of units. */
const TEXTS = [
  JSON.stringify({ subject: 'toán', confidence: 0.5 }),
  JSON.stringify({ subject: 'Tiếng Việt 🙂 "trích" \\theta\n', confidence: 1 }),
];
const never = new AbortController().signal;

/** Returns the text of a stream's answer; null if it is not whole. */
async function answerOf(provider: HttpProvider, bytes: Uint8Array): Promise<string | null> {
  const wire = WIRE_OF[provider];
  const body = await readEvents(chunksOf(bytes), wire.fold(), never);
  return body === null ? null : (wire.read(body)?.text ?? null);
}

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Requires that each damaged stream has the whole answer or none, and returns how many of them have it. */
async function wholeOrNone(provider: HttpProvider, text: string, damaged: Iterable<Uint8Array>) {
  const counts = { streams: 0, whole: 0, short: 0 };
  for (const bytes of damaged) {
    const answer = await answerOf(provider, bytes);
    counts.streams += 1;
    if (answer === text) counts.whole += 1;
    else if (answer !== null) counts.short += 1;
  }
  return counts;
}

function* cutAtEachByte(stream: string): Generator<Uint8Array> {
  const bytes = Buffer.from(stream);
  for (let length = 0; length <= bytes.length; length += 1) yield bytes.subarray(0, length);
}

/** Cuts each line after each of its characters. A line that is missing as a whole leaves no trace in these protocols. */
function* cutEachLine(stream: string): Generator<Uint8Array> {
  const lines = stream.split('\n');
  for (const [at, line] of lines.entries()) {
    for (let length = 1; length < line.length; length += 1) {
      yield Buffer.from(lines.with(at, line.slice(0, length)).join('\n'));
    }
  }
}

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: a stream that is cut, or of which a line is, has the whole answer or none`, async (t) => {
    for (const text of TEXTS) {
      for (const without of [undefined, 'done', 'usage', 'end'] as const) {
        const stream = streamOf(provider, text, without === undefined ? {} : { without });
        const cut = await wholeOrNone(provider, text, cutAtEachByte(stream));
        const lines = await wholeOrNone(provider, text, cutEachLine(stream));
        t.comment(`${without ?? 'all'}: cut ${JSON.stringify(cut)}, lines cut ${JSON.stringify(lines)}`);
        t.equal(cut.short + lines.short, 0, 'no short answer is accepted');
        t.equal(cut.whole > 0, without !== 'end', 'the whole stream has the answer');
        t.ok(cut.streams > 300 && lines.streams > 300, 'many streams');
      }
    }
  });
}
