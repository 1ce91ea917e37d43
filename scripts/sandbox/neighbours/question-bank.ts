import type { ReceivedCall } from '#scripts/sandbox/local-server.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import { CALLER_OF_OWNERS, OWNER_HEADERS } from './ledger.ts';
import { closed, type StandIn, TEXT } from './stand-in.ts';

/** Path of the question bank for the content of questions that a model may see. */
export const CONTEXT_PATH = '/v1/questions/ai-classify/context';

/** Answers a call of a question bank with the questions that `questionOf` knows, in the order of the call. */
export function questionsAnswer(call: ReceivedCall, questionOf: (id: string) => object | undefined) {
  const { questionIds } = call.json() as { questionIds: readonly string[] };
  const questions = questionIds.flatMap((id) => questionOf(id) ?? []);
  return { status: 200, body: { success: true, data: { questions } } };
}

/** Returns the part of an exam's question that a model may see: everything but the key. */
export function bankQuestion({ questionId, content, contentText, options = [] }: StartQuestion): BankQuestion {
  return { id: questionId, content, contentText, options };
}

interface BankQuestion {
  id: string;
  [field: string]: unknown;
}

/** Facts of the question bank: questions that it stores, in place of those with the same id. */
export interface BankFacts {
  questions: readonly BankQuestion[];
}

export type BankStandIn = ReturnType<typeof bankStandIn>;

const REQUEST = closed({
  questionIds: { type: 'array', minItems: 1, maxItems: 2_000, uniqueItems: true, items: TEXT },
  fields: { type: 'array', items: TEXT },
  mode: { enum: ['SUGGEST', 'AUTO'] },
  overwrite: { type: 'boolean' },
});

/** Opens a question bank with these questions. */
export function bankStandIn(first: readonly BankQuestion[]) {
  const questions = new Map(first.map((question) => [question.id, question]));
  const asked = new Set<string>();

  function questionOf(id: string): BankQuestion | undefined {
    const question = questions.get(id);
    if (question !== undefined) asked.add(id);
    return question;
  }

  function learn(facts: BankFacts): void {
    for (const question of facts.questions) questions.set(question.id, question);
  }

  return {
    learn,
    /** Returns the number of its questions whose content was requested. */
    questionsAsked: () => asked.size,
    facts: closed({
      questions: { type: 'array', items: { type: 'object', required: ['id'], properties: { id: TEXT } } },
    }),
    routes: [
      {
        method: 'POST',
        path: new RegExp(`^${CONTEXT_PATH}$`),
        senders: [CALLER_OF_OWNERS],
        headers: OWNER_HEADERS,
        shape: REQUEST,
        answer: (call) => questionsAnswer(call, questionOf),
      },
    ],
    state: () => ({ questions: questions.size, asked: asked.size, ids: [...questions.keys()] }),
    forget() {
      asked.clear();
      questions.clear();
      learn({ questions: first });
    },
  } satisfies StandIn<BankFacts> & { questionsAsked(): number };
}
