import { toGemini } from '#shared/classifier/lowering.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { countOf, jsonOf, type StreamFold, sumOf, type Wire, type WireAnswer } from './wire.ts';

const FILTERS = ['SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'LANGUAGE', 'OTHER'];

/** Google's generateContent API. The key is sent in a header, because URLs are often logged. */
export const GEMINI: Wire = {
  requestIdHeader: null,
  form: (_target, schema) => (toGemini(schema) === null ? 'json' : 'schema'),
  request({ prompt, schema, form, stream }, { model, baseUrl, key }) {
    const path = (model.includes('/') ? model : `models/${model}`).split('/').map(encodeURIComponent).join('/');
    const verb = stream ? ':streamGenerateContent?alt=sse' : ':generateContent';
    const lowered = form === 'schema' ? toGemini(schema) : null;
    return {
      url: `${baseUrl}/${path}${verb}`,
      headers: key === null ? {} : { 'x-goog-api-key': key },
      body: {
        systemInstruction: { parts: [{ text: prompt.system }] },
        contents: [{ role: 'user', parts: [{ text: prompt.user }] }],
        generationConfig: {
          responseMimeType: 'application/json',
          ...(lowered === null ? {} : { responseSchema: lowered }),
        },
      },
    };
  },
  read(body) {
    const { candidates, promptFeedback, usageMetadata } = membersOf(body);
    const counted = membersOf(usageMetadata);
    const usage = {
      inputTokens: countOf(counted.promptTokenCount),
      // Thinking tokens are billed as output tokens.
      outputTokens: sumOf(counted.candidatesTokenCount, counted.thoughtsTokenCount),
    };
    const candidate = Array.isArray(candidates) && candidates.length > 0 ? membersOf(candidates[0]) : null;
    if (candidate === null) {
      return typeof membersOf(promptFeedback).blockReason === 'string' ? { text: '', finish: 'filter', usage } : null;
    }
    return { text: textOf(candidate.content), finish: finishOf(candidate.finishReason), usage };
  },
  fold: foldChunks,
};

function finishOf(reason: unknown): WireAnswer['finish'] {
  if (reason === 'MAX_TOKENS') return 'length';
  return typeof reason === 'string' && FILTERS.includes(reason) ? 'filter' : 'stop';
}

function textOf(content: unknown): string {
  const { parts } = membersOf(content);
  const answerParts = (Array.isArray(parts) ? parts : []).map(membersOf).filter((part) => part.thought !== true);
  return answerParts
    .map((part) => part.text)
    .filter((text) => typeof text === 'string')
    .join('');
}

function foldChunks(): StreamFold {
  let text = '';
  let finishReason: unknown;
  let promptFeedback: unknown;
  let usageMetadata: unknown;
  let error: unknown;
  return {
    take({ data }) {
      if (error !== undefined) return;
      const chunk = membersOf(jsonOf(data));
      if (chunk.error !== undefined && chunk.error !== null) {
        error = chunk.error;
        return;
      }
      const candidate = Array.isArray(chunk.candidates) ? membersOf(chunk.candidates[0]) : {};
      text += textOf(candidate.content);
      finishReason = candidate.finishReason ?? finishReason;
      promptFeedback = chunk.promptFeedback ?? promptFeedback;
      // Every chunk contains cumulative counts.
      usageMetadata = chunk.usageMetadata ?? usageMetadata;
    },
    body() {
      if (error !== undefined) return { error };
      if (finishReason === undefined) return promptFeedback === undefined ? null : { promptFeedback, usageMetadata };
      return { candidates: [{ content: { parts: [{ text }] }, finishReason }], usageMetadata };
    },
  };
}
