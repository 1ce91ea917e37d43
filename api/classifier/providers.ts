import { ACTOR, identity, role, scope } from '#api/http/guards/identity.ts';
import { adminOrSender } from '#api/http/guards/senders.ts';
import { type Call, type Guard, type Reply, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { findProviderSetting, saveProviderSetting } from '#infra/mongo/classifier/providers.ts';
import { readChoice, runtimeView, settingView } from '#shared/classifier/provider/setting.ts';
import type { ProviderSettingsRequest } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { ProviderDeps } from './deps.ts';

const ADMIN_SERVICE = 'admin-service';

const PROVIDER: Tag = { name: 'Classifier: model provider', description: 'Choice and state of the model provider.' };

/** Routes to choose the model provider and to read its status. None of them calls a provider. */
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
      summary: 'Get the status of the model provider without calling it',
      description:
        'Returns which provider and model are in force and whether calls to them are suspended. It calls no provider and shows no key. Read it before previews are offered.',
      tag: PROVIDER,
      guards: [adminOrService],
      replies: [{ status: 200, schema: 'classifier/provider-runtime', description: 'Status of the provider in force' }],
      errors: [],
      handle: () => readProviderStatus(deps),
    },
    {
      method: 'GET',
      path: '/v1/admin/ai/providers/settings',
      operation: 'readProviderSettings',
      summary: 'Get the stored provider setting and the provider in force',
      description: 'Returns the setting that an ADMIN saved, or null, and the state of the provider in force.',
      tag: PROVIDER,
      guards: admin,
      replies: [
        {
          status: 200,
          schema: 'classifier/provider-settings-reply',
          description: 'Stored setting and status of the provider in force',
        },
      ],
      errors: [],
      handle: () => readProviderSettings(deps),
    },
    {
      method: 'PUT',
      path: '/v1/admin/ai/providers/settings',
      operation: 'saveProviderSettings',
      summary: 'Select the model provider of all processes',
      description:
        'Selects provider and model for all organizations, or with `enabled: false` returns to the environment. This process uses it at once, every other one within 5 s. A repeat saves the same choice again with the next `version`. The key itself is never sent.',
      tag: PROVIDER,
      guards: admin,
      body: { schema: 'classifier/provider-settings-request', maxBytes: SMALL_BODY },
      replies: [
        {
          status: 200,
          schema: 'classifier/provider-settings-reply',
          description: 'Saved setting, in force from now on',
        },
      ],
      errors: ['AI_PROVIDER_UNSUPPORTED', 'AI_API_KEY_REF_NOT_ALLOWED', 'AI_BASE_URL_NOT_ALLOWED'],
      handle: (call) => saveProviderSettings(deps, call),
    },
  ];
}

/** Returns the status of the provider that is in force. */
async function readProviderStatus(deps: Pick<ProviderDeps, 'models'>): Promise<Reply> {
  return { status: 200, data: runtimeView(await deps.models.status()) };
}

/** Returns the stored setting and the status of the provider in force. */
async function readProviderSettings(deps: Pick<ProviderDeps, 'mongo' | 'models'>): Promise<Reply> {
  const setting = await findProviderSetting(deps.mongo);
  const runtime = runtimeView(await deps.models.status());
  return { status: 200, data: { setting: setting === null ? null : settingView(setting), runtime } };
}

/** Saves a choice, then switches this process to it. Calls in progress finish at their old provider. */
async function saveProviderSettings(
  deps: ProviderDeps,
  call: Call<ProviderSettingsRequest>,
): Promise<Reply | Rejection> {
  const choice = readChoice(call.body, deps.trusted);
  if (isRejection(choice)) return choice;
  const { actor, organizationId = '' } = call.identity;
  const by = { actorId: actor?.id ?? '', organizationId, at: new Date(deps.now()) };
  const setting = await saveProviderSetting(deps.mongo, choice, by);
  deps.models.changed(setting);
  return { status: 200, data: { setting: settingView(setting), runtime: runtimeView(await deps.models.status()) } };
}
