import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';

export type EchoBody = SaveAnswerRequest;

/** Returns the reply of both servers, a dozen fields. */
export function echoed(id: string, body: EchoBody) {
  return {
    id,
    questionId: body.questionId,
    selected: body.answer?.selectedOptionIds ?? [],
    clientVersion: body.clientVersion ?? 0,
    serverTime: new Date().toISOString(),
    tags: ['a', 'b', 'c'],
    total: 12.5,
    open: true,
  };
}

const text = { type: 'string' };

/** The schema from which Fastify compiles its serialiser. */
export const REPLY_SCHEMA = {
  type: 'object',
  properties: {
    success: { type: 'boolean' },
    data: {
      type: 'object',
      properties: {
        id: text,
        questionId: text,
        clientVersion: { type: 'integer' },
        serverTime: text,
        selected: { type: 'array', items: text },
        tags: { type: 'array', items: text },
        total: { type: 'number' },
        open: { type: 'boolean' },
      },
    },
    message: text,
  },
};
