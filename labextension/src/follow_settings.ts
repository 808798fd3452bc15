import { ISettingRegistry } from '@jupyterlab/settingregistry';

/** The plugin whose schema has the settings of all. */
export const PLUGIN = 'jupyter-gpushare:plugin';

/** Call *apply* now and on every change; with nothing set where there are no settings. Gives what was set at first. */
export async function followSettings(
  registry: ISettingRegistry | null,
  apply: (values: Record<string, unknown>) => void
): Promise<Record<string, unknown>> {
  const settings = await registry?.load(PLUGIN).catch(() => undefined); // without a schema: the defaults
  const first = settings?.composite ?? {};
  apply(first);
  settings?.changed.connect(() => {
    apply(settings.composite);
  });
  return first;
}
