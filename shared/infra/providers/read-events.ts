import { createParser } from 'eventsource-parser';
import type { StreamFold } from '#infra/providers/wires/wire.ts';

/**
 * Feeds the events of a stream to `fold`; what comes back is the body that it makes of them, null when the end was not
 * among them. Bytes may be cut anywhere, also inside a letter, and the last event need not be closed by an empty line.
 */
export async function readEvents(chunks: AsyncIterable<Uint8Array>, fold: StreamFold): Promise<unknown> {
  const decoder = new TextDecoder();
  const parser = createParser({ onEvent: (event) => fold.take(event) });
  for await (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
  parser.feed(decoder.decode());
  parser.reset({ consume: true });
  return fold.body();
}
