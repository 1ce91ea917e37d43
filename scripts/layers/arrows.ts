import type { Place } from './place.ts';

/** Folders of api/ that serve every service, not one. */
const API_GROUND = ['http'];

/** The service whose rules an actor applies. An actor that is not named here (upkeep sweeps for everybody) may apply all. */
const SERVICE_OF_ACTOR: Readonly<Record<string, string>> = {
  grading: 'attempt',
  'essay-handoff': 'attempt',
  'results-release': 'attempt',
  'grade-notices': 'attempt',
  classifier: 'classifier',
  settlement: 'classifier',
  delivery: 'notification',
};

/** Services of which another one's folders keep out; `operations` is a folder of api/ for operators, who see all of them. */
const SERVICES = ['attempt', 'auth', 'classifier', 'notification'];

/** The reason why `from` may not import `to`, both files of ours; undefined when it may. */
export function brokenArrow(from: Place, to: Place): string | undefined {
  if (to.layer === 'scripts') return 'scripts/ is not part of what runs in production';
  switch (from.layer) {
    case 'kernel':
      return to.layer === 'kernel' ? undefined : 'the kernel imports nothing of ours: everything else stands on it';
    case 'generated':
      return to.layer === 'generated' ? undefined : 'generated types come from schemas/ alone';
    case 'rules':
      if (to.layer === 'kernel' || to.layer === 'generated') return undefined;
      if (to.layer === 'rules')
        return to.service === from.service ? undefined : 'no service folder imports another service';
      return 'rules are pure: they know neither the stores nor the processes that apply them';
    case 'infra':
      return to.layer === 'api' || to.layer === 'workers' ? 'infra stands below api and workers' : undefined;
    case 'api':
      return brokenApiArrow(from.folder, to);
    case 'workers':
      return brokenWorkersArrow(from.folder, to);
    default:
      return undefined;
  }
}

function brokenApiArrow(folder: string | undefined, to: Place): string | undefined {
  if (to.layer === 'workers') return 'a front door never does the work of an actor: it writes a command and rings';
  if (folder === undefined) return undefined;
  const isGround = API_GROUND.includes(folder);
  if (to.layer === 'api' && to.folder !== undefined && to.folder !== folder) {
    if (isGround) return 'http serves every service and knows none';
    if (!API_GROUND.includes(to.folder)) return 'no service folder imports another service';
  }
  if (to.layer === 'rules' && SERVICES.includes(folder) && to.service !== folder)
    return 'no service folder imports another service';
  return undefined;
}

function brokenWorkersArrow(folder: string | undefined, to: Place): string | undefined {
  if (to.layer === 'api') return 'an actor works without any front door in its process';
  if (folder === undefined) return undefined;
  if (to.layer === 'workers' && to.folder !== undefined && to.folder !== folder) {
    return 'actors share the kernel files of workers/, not each other';
  }
  const service = SERVICE_OF_ACTOR[folder];
  if (to.layer === 'rules' && service !== undefined && to.service !== service)
    return 'no service folder imports another service';
  return undefined;
}
