import { answerJson, type LocalServer, listenLocally, type ReceivedCall } from '#scripts/http/local-server.ts';
import { CONTEXT_PATH, questionsAnswer } from '#scripts/http/question-bank.ts';
import type { StartQuestion } from '#shared/generated/attempt.ts';
import type { Student } from './students.ts';

/** A stand-in for two services that do not run here: the profile service and the question bank. */
export interface StandIn extends LocalServer {
  /** Number of its questions whose content was requested. */
  questionsAsked(): number;
}

interface Answer {
  status: number;
  body?: unknown;
}

const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Opens a stand-in that knows these questions and the parents of these students only. For other students it answers 403. The dispatcher
 * treats that as a configuration fault: the notice waits for the real service and spends no attempt.
 */
export async function openStandIn(
  port: number,
  { students, questions }: { students: readonly Student[]; questions: readonly StartQuestion[] },
): Promise<StandIn> {
  const parents = new Map(students.map((student) => [student.id, student.parentIds]));
  const bank = new Map(questions.map((question) => [question.questionId, bankQuestion(question)]));
  const asked = new Set<string>();

  function parentsReply(path: string): Answer {
    const student = /^\/v1\/students\/([^/?]+)\/parents$/.exec(path)?.[1];
    if (student === undefined) return { status: 404 };
    const parentIds = parents.get(decodeURIComponent(student));
    if (parentIds === undefined) return { status: 403 };
    return { status: parentIds.length === 0 ? 404 : 200, body: { success: true, data: { parentIds } } };
  }

  function questionOf(id: string) {
    const question = bank.get(id);
    if (question !== undefined) asked.add(id);
    return question;
  }

  function answer(call: ReceivedCall): Answer {
    if (call.method === 'GET') return parentsReply(call.path);
    return call.method === 'POST' && call.path === CONTEXT_PATH ? questionsAnswer(call, questionOf) : { status: 404 };
  }

  const server = await listenLocally((call, response) => answerJson(response, answer(call)), {
    port,
    maxBodyBytes: MAX_BODY_BYTES,
    survivesErrors: true,
  });
  return { ...server, questionsAsked: () => asked.size };
}

/** Returns the part of a question that a model may see: everything but the key. */
function bankQuestion({ questionId, content, contentText, options = [] }: StartQuestion) {
  return { id: questionId, content, contentText, options };
}
