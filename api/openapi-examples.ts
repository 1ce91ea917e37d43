import { readFileSync } from 'node:fs';

/**
 * Request and replies of one operation, as a cluster received and sent them while the examples of docs/gateway ran. `request` is the body;
 * `replies` holds whole bodies by status: JSON, or the text of another media type.
 */
export interface Example {
  request?: unknown;
  replies: Readonly<Record<string, unknown>>;
}

/** Examples by operation id. */
export type Examples = Readonly<Record<string, Example>>;

export const EXAMPLES = new URL('./openapi-examples.json', import.meta.url);

/** Returns the recorded examples. `scripts/testing/docs/pages.e2e.test.ts` writes the file; only the first request for the document reads it. */
export function readExamples(): Examples {
  return JSON.parse(readFileSync(EXAMPLES, 'utf8')) as Examples;
}
