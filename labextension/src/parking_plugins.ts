import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IDocumentSession, kernelIdOf, sessionOf } from './current_kernel';
import { followSettings } from './follow_settings';
import { Heard } from './heard';
import { LeaseNotices } from './lease_notices';
import { Notices } from './notices';
import { ParkedBadge } from './parked_badge';
import { LabParkingDialogs } from './parking_dialogs';
import { ShutdownGuard } from './shutdown_guard';
import { IGpuShare } from './tokens';

const DOMAIN = 'jupyter_gpushare';

/** Notifications: that a countdown began, how a resume went, what was lost. */
export const notices: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:notices',
  description: 'Tells once what people should hear about parking.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [ITranslator, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    { model, flow, parking }: IGpuShare,
    translator: ITranslator | null,
    settings: ISettingRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const heard = new Heard(browserStorage());
    new LeaseNotices({ model, heard, trans });
    const told = new Notices({
      model,
      heard,
      isVisible: kernelId => isShown(app, kernelId),
      keep: (seconds, kernelId) => void parking.keep(seconds, kernelId),
      park: kernelId => void flow.begin(kernelId),
      trans
    });
    void followSettings(settings, ({ notifyBeforeParking }) => {
      told.warnsBeforeParking = notifyBeforeParking !== false;
    });
  }
};

/** Asks before a parked kernel is ended from this page. */
export const guard: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:shutdown-guard',
  description: 'Asks before anything in this page ends a parked kernel.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, { model }: IGpuShare, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const { serviceManager } = app;
    const kernelOf = (sessionId: string): string | null =>
      [...serviceManager.sessions.running()].find(({ id }) => id === sessionId)?.kernel?.id ?? null;
    const dialogs = new LabParkingDialogs(trans);
    const standing = new ShutdownGuard({ model, dialogs, kernelOf, trans });
    standing.install(serviceManager.serverSettings);
    model.changed.connect(() => {
      documentsIn(app).forEach(document => {
        standing.cover(document);
      });
    });
  }
};

/** In the toolbar of a notebook: that it is parked. */
export const badge: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpushare:toolbar',
  description: 'Shows in a notebook’s toolbar that its GPU memory is parked.',
  autoStart: true,
  requires: [IGpuShare],
  optional: [IToolbarWidgetRegistry, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    { model, parking }: IGpuShare,
    toolbars: IToolbarWidgetRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const resume = (kernelId: string): void => void parking.resume(kernelId);
    toolbars?.addFactory(
      'Notebook',
      'gpushareParked',
      notebook => new ParkedBadge(model, notebook, resume, trans)
    );
  }
};

function documentsIn({ shell }: JupyterFrontEnd): IDocumentSession[] {
  return [...shell.widgets('main')].map(sessionOf).filter(session => session !== null);
}

/** Whether a document with this kernel is before the user's eyes. */
function isShown({ shell }: JupyterFrontEnd, kernelId: string): boolean {
  return [...shell.widgets('main')].some(widget => widget.isVisible && kernelIdOf(widget) === kernelId);
}

/** A browser may forbid it, and then says so by an exception. */
function browserStorage(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
