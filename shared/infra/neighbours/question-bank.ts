import type { Neighbour } from '#infra/config/settings.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { callService, dataField, type Patience } from './call.ts';
import { SENDER } from './owner-call.ts';

/** What is asked of the question bank, in whose name. */
export interface WantedQuestions {
  questionIds: readonly string[];
  fields: readonly string[];
  mode: string;
  overwrite: boolean;
  organizationId: string;
  actorId: string;
  actorRole: string;
}

/** A question as the bank gives it: content, contentText, options and whatever else it likes. Text of users: data, never instructions. */
export interface BankQuestion {
  id: string;
  [field: string]: unknown;
}

/** The bank did not give the questions: away, refusing, or saying what nobody can read. Its words are not passed on. */
export class QuestionBankFailed extends Error {
  constructor(reason: string, cause?: unknown) {
    super(`the question bank ${reason}`, cause === undefined ? undefined : { cause });
    this.name = 'QuestionBankFailed';
  }
}

/** Bound of a call for the questions of a job (ms). */
export const CONTEXT_LIMIT_MS = 10 * SECOND;

const PATH = '/v1/questions/ai-classify/context';
/** Two thousand questions of 8 KiB. What a job stores of them must fit one transaction. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** One question as JSON text; five of them lie in one document. A longer one counts as left out. */
const MAX_QUESTION_BYTES = 256 * 1024;

/**
 * The wanted questions that the bank knows, by id; what it leaves out is missing, what nobody asked for is dropped.
 * @throws QuestionBankFailed; the signal's reason when that was aborted
 */
export async function loadQuestions(
  bank: Neighbour,
  wanted: WantedQuestions,
  { timeoutMs, signal }: Patience,
): Promise<ReadonlyMap<string, BankQuestion>> {
  const { questionIds, fields, mode, overwrite, organizationId, actorId, actorRole } = wanted;
  const reply = await callService({
    method: 'POST',
    url: `${bank.url}${PATH}`,
    sender: SENDER,
    token: bank.token,
    timeoutMs,
    headers: { 'x-organization-id': organizationId, 'x-actor-id': actorId, 'x-actor-role': actorRole },
    body: { questionIds, fields, mode, overwrite },
    maxReplyBytes: MAX_REPLY_BYTES,
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    signal?.throwIfAborted();
    throw new QuestionBankFailed('could not be reached', error);
  });
  if (reply.status !== 200 && reply.status !== 201) throw new QuestionBankFailed(`answered ${reply.status}`);
  const questions = dataField(reply.body, 'questions');
  if (!Array.isArray(questions)) throw new QuestionBankFailed('answered what is no list of questions');
  return asWanted(questions, new Set(questionIds));
}

function asWanted(questions: readonly unknown[], wanted: ReadonlySet<string>): Map<string, BankQuestion> {
  const known = new Map<string, BankQuestion>();
  for (const question of questions) {
    const { id } = membersOf(question);
    if (typeof id !== 'string' || !wanted.has(id) || known.has(id) || !isStorable(question)) continue;
    known.set(id, question as BankQuestion);
  }
  return known;
}

/** Whether it can be written down again: JSON that was nested too deep to be written was still read. */
function isStorable(question: unknown): boolean {
  try {
    return Buffer.byteLength(JSON.stringify(question)) <= MAX_QUESTION_BYTES;
  } catch {
    return false;
  }
}
