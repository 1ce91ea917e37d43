import type { Route } from '#api/route.ts';
import type { JobDeps } from './job-deps.ts';
import { jobRoutes } from './job-routes.ts';
import type { PreviewDeps } from './preview-deps.ts';
import { previewRoutes } from './preview-routes.ts';
import type { ProviderDeps } from './provider-deps.ts';
import { providerRoutes } from './provider-routes.ts';

/** What the AI classifier's front door works with, by its three parts. */
export interface ClassifierDeps {
  jobs: JobDeps;
  previews: PreviewDeps;
  providers: ProviderDeps;
}

/** The AI classifier's routes: jobs and previews for teachers, the choice of a provider for admins. */
export function classifierRoutes({ jobs, previews, providers }: ClassifierDeps): Route[] {
  return [...jobRoutes(jobs), ...previewRoutes(previews), ...providerRoutes(providers)];
}
