import { SMALL_BODY } from '#api/bodies.ts';
import { saveProviderSettings } from '#api/classifier/commands/save-provider-settings.ts';
import { readProviderSettings } from '#api/classifier/queries/read-provider-settings.ts';
import { readProviderStatus } from '#api/classifier/queries/read-provider-status.ts';
import { ACTOR, identity, role, scope } from '#api/http/guards/identity.ts';
import { adminOrSender } from '#api/http/guards/senders.ts';
import type { Guard, Route } from '#api/route.ts';
import type { ProviderDeps } from './provider-deps.ts';

const ADMIN_SERVICE = 'admin-service';

/** Who is asked, and whether that can be done. None of these routes asks a provider. */
export function providerRoutes(deps: ProviderDeps): Route[] {
  const admin: Guard[] = [identity(ACTOR), scope(), role('ADMIN')];
  const adminOrService = adminOrSender(ACTOR, {
    senders: [ADMIN_SERVICE],
    tokens: { [ADMIN_SERVICE]: deps.adminServiceToken },
    unauthorizedCode: 'UNAUTHENTICATED',
    unconfiguredCode: 'UNAUTHENTICATED',
  });

  return [
    {
      method: 'GET',
      path: '/v1/ai/providers/status',
      operation: 'readProviderStatus',
      summary: 'What is known of the model provider, without asking it',
      guards: [adminOrService],
      replies: [{ status: 200, schema: 'classifier/provider-runtime', description: 'As it is now' }],
      errors: [],
      handle: () => readProviderStatus(deps),
    },
    {
      method: 'GET',
      path: '/v1/admin/ai/providers/settings',
      operation: 'readProviderSettings',
      summary: 'The stored choice of model provider, and what is in force',
      guards: admin,
      replies: [{ status: 200, schema: 'classifier/provider-settings-reply', description: 'As they are now' }],
      errors: [],
      handle: () => readProviderSettings(deps),
    },
    {
      method: 'PUT',
      path: '/v1/admin/ai/providers/settings',
      operation: 'saveProviderSettings',
      summary: 'Choose the model provider of every process',
      guards: admin,
      body: { schema: 'classifier/provider-settings-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/provider-settings-reply', description: 'Saved and in force' }],
      errors: ['AI_PROVIDER_UNSUPPORTED', 'AI_API_KEY_REF_NOT_ALLOWED', 'AI_BASE_URL_NOT_ALLOWED'],
      handle: (call) => saveProviderSettings(deps, call),
    },
  ];
}
