import type { Neighbour } from '#infra/config/settings.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { foreignTextFault } from '#shared/kernel/text.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type CallLimits, callService, dataField } from './call.ts';
import { SENDER } from './owner-call.ts';

/** The questions that are requested from the question bank, and on whose behalf. */
export interface WantedQuestions {
  questionIds: readonly string[];
  fields: readonly string[];
  mode: string;
  overwrite: boolean;
  organizationId: string;
  actorId: string;
  actorRole: string;
}

/** A question as the bank returns it: content, contentText, options and possibly more. Its text is user data, never an instruction. */
export interface BankQuestion {
  id: string;
  [field: string]: unknown;
}

/** Thrown if the bank is unreachable, refuses, or sends an unreadable reply. The message quotes nothing of its reply. */
export class QuestionBankFailed extends Error {
  constructor(reason: string, cause?: unknown) {
    super(`the question bank ${reason}`, cause === undefined ? undefined : { cause });
    this.name = 'QuestionBankFailed';
  }
}

/** Time limit of a call for the questions of a job, in milliseconds. */
export const CONTEXT_LIMIT_MS = 10 * SECOND;

const PATH = '/v1/questions/ai-classify/context';
/** Names under which a bank may return its list. The first one that contains a list is used. */
const LIST_FIELDS = ['questions', 'questionContext'];
/** Maximum size of a reply: 2,000 questions of 8 KiB. The questions of a job must fit into one transaction. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** Maximum size of one question as JSON text, because one document stores five of them. A longer question counts as missing. */
const MAX_QUESTION_BYTES = 256 * 1024;

/**
 * Returns the wanted questions that the bank knows, by id. Unknown ones are missing; questions that were not requested are dropped.
 *
 * @throws QuestionBankFailed; the signal's reason, if the signal was aborted
 */
export async function loadQuestions(
  bank: Neighbour,
  wanted: WantedQuestions,
  { timeoutMs, signal }: CallLimits,
): Promise<ReadonlyMap<string, BankQuestion>> {
  const { questionIds, fields, mode, overwrite, organizationId, actorId, actorRole } = wanted;
  const reply = await callService({
    method: 'POST',
    url: `${bank.url}${PATH}`,
    sender: SENDER,
    token: bank.token,
    called: bank.called,
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
  const questions = LIST_FIELDS.map((name) => dataField(reply.body, name)).find((value) => Array.isArray(value));
  if (questions === undefined) {
    throw new QuestionBankFailed(`answered ${reply.status} in another shape, without \`data.questions\``);
  }
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

/**
 * Returns true if the question is small enough, can be serialized, and has only texts and numbers that a request may have. Very deep JSON can
 * be parsed but not serialized again. A provider refuses the whole batch for half of a surrogate pair in one question.
 */
function isStorable(question: unknown): boolean {
  try {
    return Buffer.byteLength(JSON.stringify(question)) <= MAX_QUESTION_BYTES && isSendable(question);
  } catch {
    return false;
  }
}

function isSendable(value: unknown): boolean {
  if (typeof value === 'string') return foreignTextFault(value) === null && !value.includes('\0');
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, member]) => isSendable(name) && isSendable(member));
}
