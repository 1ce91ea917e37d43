import { ACTOR, identity, role, scope } from '#api/http/guards/identity.ts';
import { ESSAY_BODY, type Route, SMALL_BODY } from '#api/route.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { PreviewDeps } from './deps.ts';
import { previewEssayGrade, previewExplanation, previewGeneration } from './previews.ts';

const PROVIDER_CODES: readonly ErrorCode[] = [
  'AI_PROVIDER_INVALID_RESPONSE',
  'AI_PROVIDER_UNAVAILABLE',
  'AI_PROVIDER_CIRCUIT_OPEN',
  'AI_PROVIDER_THROTTLED',
  'AI_PROVIDER_QUOTA',
  'AI_PROVIDER_TIMEOUT',
  'AI_PROVIDER_NOT_CONFIGURED',
];

/** What a model can make for a teacher to look at. Nothing of it is written; whoever owns it writes it, if asked to. */
export function previewRoutes(deps: PreviewDeps): Route[] {
  const guards = [identity(ACTOR), scope(), role('ADMIN', 'TEACHER')];
  return [
    {
      method: 'POST',
      path: '/v1/ai/generation/preview',
      operation: 'previewGeneration',
      summary: 'Generate questions, without writing any',
      guards,
      body: { schema: 'classifier/generation-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/generation-preview', description: 'Made, or made before' }],
      errors: [
        ...PROVIDER_CODES,
        'AI_OWNER_UNAVAILABLE',
        'AI_WALLET_INSUFFICIENT',
        'AI_USAGE_LIMIT_EXCEEDED',
        'AI_SETTLEMENT_PENDING',
        'AI_GENERATION_IN_PROGRESS',
      ],
      failureData: { AI_SETTLEMENT_PENDING: 'classifier/pending-preview' },
      handle: (call) => previewGeneration(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai/explanation/preview',
      operation: 'previewExplanation',
      summary: 'Explain a question, without writing a solution',
      guards,
      body: { schema: 'classifier/explanation-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/explanation-preview', description: 'Made' }],
      errors: PROVIDER_CODES,
      handle: (call) => previewExplanation(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai/essay-grade/preview',
      operation: 'previewEssayGrade',
      summary: 'Grade an essay by its rubric, without writing a grade',
      guards,
      body: { schema: 'classifier/essay-grade-request', maxBytes: ESSAY_BODY },
      replies: [{ status: 200, schema: 'classifier/essay-grade-preview', description: 'Graded' }],
      errors: PROVIDER_CODES,
      handle: (call) => previewEssayGrade(deps, call),
    },
  ];
}
