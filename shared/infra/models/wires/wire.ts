import type { ProviderName } from '#shared/classifier/provider/names.ts';
import type { Prompt } from '#shared/classifier/tasks/prompt.ts';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';

/** How an answer's shape is demanded: by the provider, as any JSON, or in the prompt alone. */
export type AnswerForm = 'schema' | 'json' | 'prompt';

/** Where and as whom a wire asks. */
export interface WireTarget {
  provider: ProviderName;
  model: string;
  /** Without a final slash. */
  baseUrl: string;
  key: string | null;
}

/** What a wire is to ask. The prompt already holds the schema where `form` leaves it to the prompt. */
export interface WireTask {
  prompt: Prompt;
  schema: Readonly<Record<string, unknown>>;
  form: AnswerForm;
  stream: boolean;
}

export interface WireRequest {
  url: string;
  headers: Record<string, string>;
  body: Readonly<Record<string, unknown>>;
}

/**
 * What an answer says. `stop`: it is whole. `busy`: the provider broke off for want of resources. The others are the
 * model's or the provider's last word, and asking again gives the same.
 */
export interface WireAnswer {
  text: string;
  finish: 'stop' | 'length' | 'filter' | 'refusal' | 'busy';
  usage: TokenUsage;
}

/** One event of a stream, as the parser of its lines gives it. */
export interface StreamEvent {
  event?: string | undefined;
  data: string;
}

/** Puts the pieces of a stream together. */
export interface StreamFold {
  take(event: StreamEvent): void;
  /** The body that would have come without streaming, an error among them; null while the end was not seen. */
  body(): unknown;
}

/** One protocol of a model provider. Knows shapes and nothing of calls, waits and faults. */
export interface Wire {
  /** Whether this provider takes a schema apart from the prompt. */
  form(target: Pick<WireTarget, 'provider'>, schema: Readonly<Record<string, unknown>>): AnswerForm;
  request(task: WireTask, target: WireTarget): WireRequest;
  /** Reads the body of a 2xx; null when it is none of this protocol. */
  read(body: unknown): WireAnswer | null;
  fold(): StreamFold;
  /** The header in which the provider names the request. */
  requestIdHeader: string | null;
}

/** A count as a provider gives it; null when it gave none. */
export function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The sum of the counts that were given; null when none was. */
export function sumOf(...values: unknown[]): number | null {
  const counts = values.map(countOf).filter((count) => count !== null);
  return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0);
}

/** JSON of one event's data; undefined when it is none. */
export function jsonOf(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
