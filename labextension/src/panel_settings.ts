/** What the user may choose about the panel; `schema/plugin.json` has the defaults. */
export interface IPanelSettings {
  showHistory: boolean;
  showIdleNotebooks: boolean;
}
