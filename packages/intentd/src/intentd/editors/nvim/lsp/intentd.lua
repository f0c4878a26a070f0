-- How Neovim starts the language server; vim.lsp.config('intentd', {...}) changes it. Without intentd nothing starts.
local marks = { ['.git'] = 1, ['pyproject.toml'] = 1, ['setup.cfg'] = 1, ['pytest.ini'] = 1, ['package.json'] = 1 }
return {
  cmd = { 'intentd', 'lsp' },
  init_options = { answers = true },
  handlers = { ['intent/answer'] = function(...) require('intentd').answer(...) end },
  root_dir = function(buf, start)
    local name, cmd = vim.api.nvim_buf_get_name(buf), vim.lsp.config.intentd.cmd
    local installed = type(cmd) == 'function' or vim.fn.executable(cmd[1]) == 1
    if not installed or name == '' or name:match('^%a[%w+.-]+://') then return end
    start(vim.fs.root(buf, function(entry) return marks[entry] ~= nil end) or vim.fs.dirname(name))
  end,
}
