export namespace CommandIDs {
  export const showPanel = 'gpushare:show-panel';
  export const release = 'gpushare:release';
  export const freeCache = 'gpushare:free-cache';
  export const openNotebook = 'gpushare:open-notebook';
  export const park = 'gpushare:park';
  export const resume = 'gpushare:resume';
  export const keepFromEnding = 'gpushare:keep-from-ending';
  export const keep = 'gpushare:keep';
  export const policy = 'gpushare:policy';
  export const request = 'gpushare:request';
  export const details = 'gpushare:details';
  export const cancelCells = 'gpushare:cancel-cells';
}
