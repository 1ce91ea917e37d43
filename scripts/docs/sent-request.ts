/** A request that the product sends, as a page shows it or as a service received it. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The parsed body; null without one. */
  readonly body: unknown;
}

/** Reads a request line, headers and, after an empty line, a JSON body. Returns null for other text. */
export function readSentRequest(text: string): SentRequest | null {
  const [head = '', ...rest] = text.split(/\n[ \t]*\n/);
  const [first = '', ...lines] = head.split('\n');
  const [, method, path] = /^([A-Z]+) (\/\S*) HTTP\/1\.1$/.exec(first.trim()) ?? [];
  const headers = lines.map((line) => /^([\w-]+): *(.*)$/.exec(line.trim()));
  if (method === undefined || path === undefined || headers.includes(null)) return null;
  try {
    const body = rest.length === 0 ? null : JSON.parse(rest.join('\n\n'));
    return {
      method,
      path,
      headers: Object.fromEntries(headers.map((match) => [match?.[1]?.toLowerCase() ?? '', match?.[2] ?? ''])),
      body,
    };
  } catch {
    return null;
  }
}
