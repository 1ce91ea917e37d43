import { toGemini } from '#shared/classifier/lowering.ts';
import { errorIn, firstOf } from '#shared/classifier/provider/refusal.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { countOf, objectsFold, type StreamFold, sumOf, type Wire, type WireAnswer, wordOf } from './wire.ts';

const FILTERS = ['safety', 'recitation', 'blocklist', 'prohibited_content', 'spii', 'language', 'other'];

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
    const { candidates, promptFeedback } = membersOf(body);
    const candidate = firstOf(candidates);
    if (!Array.isArray(candidates) || candidates.length === 0) {
      return typeof membersOf(promptFeedback).blockReason === 'string' ? { text: '', finish: 'filter' } : null;
    }
    return { text: textOf(candidate.content), finish: finishOf(candidate.finishReason) };
  },
  usageOf(body) {
    const counted = membersOf(membersOf(body).usageMetadata);
    return {
      inputTokens: countOf(counted.promptTokenCount),
      // Thinking tokens are billed as output tokens.
      outputTokens: sumOf(counted.candidatesTokenCount, counted.thoughtsTokenCount),
    };
  },
  fold: foldChunks,
};

function finishOf(reason: unknown): WireAnswer['finish'] {
  const word = wordOf(reason);
  if (word === 'max_tokens') return 'length';
  return FILTERS.includes(word) ? 'filter' : 'stop';
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
  return objectsFold({
    take(chunk) {
      // Every chunk contains cumulative counts.
      usageMetadata = chunk.usageMetadata ?? usageMetadata;
      error = errorIn(chunk);
      if (error !== undefined) return true;
      const candidate = firstOf(chunk.candidates);
      text += textOf(candidate.content);
      finishReason = candidate.finishReason ?? finishReason;
      promptFeedback = chunk.promptFeedback ?? promptFeedback;
      return wordOf(finishReason) !== '';
    },
    body() {
      if (error !== undefined) return { type: 'error', error };
      if (wordOf(finishReason) === '') return promptFeedback === undefined ? null : { promptFeedback };
      return { candidates: [{ content: { parts: [{ text }] }, finishReason }] };
    },
    counted: () => ({ usageMetadata }),
  });
}
